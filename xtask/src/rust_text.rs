//! Just enough of Rust's lexical grammar for the checks: comments and literals blanked out, and
//! which lines are test code.
//!
//! Not a parser. Lines keep their numbers and columns their width in bytes, so that what is found
//! in the blanked text is where it is in the source. Grammar: the Rust reference, "Lexical
//! structure" (comments nest, raw strings count their hashes, a lifetime is no character literal).

/// The source with every comment and the inside of every literal replaced by spaces.
pub(crate) fn code_only(source: &str) -> String {
    let mut scanner = Scanner {
        rest: source,
        out: String::with_capacity(source.len()),
    };
    while !scanner.rest.is_empty() {
        scanner.step();
    }
    scanner.out
}

/// For each line, whether it belongs to an item under `#[cfg(test)]`, the attribute included.
pub(crate) fn test_lines(source: &str) -> Vec<bool> {
    let code = code_only(source);
    let mut is_test = vec![false; source.lines().count()];
    let mut from = 0;
    while let Some(start) = find_from(&code, from, &["#[cfg(test)]", "#[cfg(all(test"]) {
        let end = item_end(&code, start);
        let line_of = |offset: usize| code[..offset].bytes().filter(|&b| b == b'\n').count();
        for line in line_of(start)..=line_of(end) {
            if let Some(flag) = is_test.get_mut(line) {
                *flag = true;
            }
        }
        from = end;
    }
    is_test
}

fn find_from(code: &str, from: usize, needles: &[&str]) -> Option<usize> {
    needles
        .iter()
        .filter_map(|needle| code[from..].find(needle))
        .min()
        .map(|at| from + at)
}

/// The offset just past the item that the attribute at `start` stands before.
fn item_end(code: &str, start: usize) -> usize {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces <= 1 => return offset,
            b'}' => braces -= 1,
            b';' if braces == 0 && others == 0 => return offset,
            _ => {}
        }
    }
    code.len()
}

struct Scanner<'a> {
    rest: &'a str,
    out: String,
}

impl Scanner<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            self.blank(self.rest.find('\n').unwrap_or(self.rest.len()));
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment_len(self.rest));
        } else if let Some(len) = raw_string_len(self.rest).filter(|_| !self.inside_word()) {
            self.blank(len);
        } else if self.rest.starts_with('"') {
            self.blank(quoted_len(self.rest, '"'));
        } else if let Some(len) = char_literal_len(self.rest) {
            self.blank(len);
        } else {
            let next = self.rest.chars().next().map_or(0, char::len_utf8);
            self.out.push_str(&self.rest[..next]);
            self.rest = &self.rest[next..];
        }
    }

    /// Whether what was put out last is part of a word, so that an `r` here starts no raw string.
    fn inside_word(&self) -> bool {
        self.out
            .ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && !self.out.ends_with('b')
            && !self.out.ends_with('c')
    }

    fn blank(&mut self, len: usize) {
        for byte in self.rest[..len].bytes() {
            self.out.push(if byte == b'\n' { '\n' } else { ' ' });
        }
        self.rest = &self.rest[len..];
    }
}

fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn raw_string_len(text: &str) -> Option<usize> {
    let after_r = text.strip_prefix('r')?;
    let hashes = after_r.len() - after_r.trim_start_matches('#').len();
    let body = after_r[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let end = body
        .find(&closing)
        .map_or(body.len(), |at| at + closing.len());
    Some(2 + hashes + end)
}

fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal here, or `None` where the quote starts a lifetime.
fn char_literal_len(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    match (chars.next()?, chars.next()) {
        ('\\', _) => Some(quoted_len(text, '\'')),
        (c, Some('\'')) => Some(c.len_utf8() + 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_code_is_kept() {
        let source = r##"let a = "unsafe \" fn"; // unsafe
let b = r#"unsafe "# ; /* unsafe /* nested */ unsafe */ let c: &'static str = b"unsafe";
let d = '"'; unsafe_name(); let e = 'x';"##;
        let code = code_only(source);
        assert_eq!(code.matches("unsafe").count(), 1, "{code}");
        assert!(code.contains("unsafe_name();"));
        assert!(code.contains("&'static str"));
        assert_eq!(code.len(), source.len());
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn a_word_that_ends_in_r_starts_no_raw_string() {
        assert_eq!(code_only("for\"x\" y"), "for    y");
    }

    #[test]
    fn the_lines_of_a_test_module_are_known() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n";
        assert_eq!(test_lines(source), [false, true, true, true, true, false]);
    }

    #[test]
    fn a_test_item_without_braces_ends_at_its_semicolon() {
        let source = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(test_lines(source), [true, true, false]);
    }
}
