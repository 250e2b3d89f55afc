//! Text in Markdown.

/// Text that Markdown shows as it stands.
pub(crate) fn plain_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' => out.push('¦'),
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '[' | ']' => {
                out.push('\\');
                out.push(character);
            }
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}
