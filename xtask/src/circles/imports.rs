//! Which file of a crate uses which: its paths, followed to the files that define what they name.
//!
//! Is not: a compiler. Known are `use` trees, and paths in code that begin with `crate`, `self`,
//! `super` or a child module's name; what comes through a macro or a glob stays where it leads at
//! first sight.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust_text::{code_only, test_lines};
use crate::tree::{SourceFile, Tree};

/// A module's place in its crate: the names from the root on.
type Module = Vec<String>;

/// The files of a crate and the paths in them.
pub(super) struct Crate {
    files: Vec<File>,
}

struct File {
    /// From the crate's `src/`.
    name: String,
    module: Module,
    /// Absolute within the crate.
    paths: Vec<Vec<String>>,
    /// What a `use` binds, by its name here.
    bound: BTreeMap<String, Vec<String>>,
}

/// How many re-exports are followed: more stand behind each other in no crate.
const MAX_REEXPORTS: usize = 8;

impl Crate {
    /// Reads the files under a crate's `src/`; programs beside the library are left out.
    pub(super) fn read(tree: &Tree, folder: &str) -> Self {
        let prefix = format!("{folder}/src/");
        let inside = |file: &&SourceFile| {
            file.path
                .strip_prefix(&prefix)
                .is_some_and(|name| !name.starts_with("bin/") && name != "main.rs")
        };
        let library = format!("{prefix}lib.rs");
        let mut sources: Vec<&SourceFile> = tree
            .rust()
            .filter(inside)
            .filter(|file| !file.is_test_only())
            .collect();
        if tree.file(&library).is_none() {
            sources.extend(tree.file(&format!("{prefix}main.rs")));
        }
        let modules: BTreeSet<Module> = sources
            .iter()
            .map(|file| module_of(&file.path[prefix.len()..]))
            .collect();
        let files = sources
            .into_iter()
            .map(|file| File::read(file, &file.path[prefix.len()..], &modules))
            .collect();
        Self { files }
    }

    /// The path of a file from `src/`.
    pub(super) fn name(&self, file: usize) -> &str {
        &self.files[file].name
    }

    /// For each file, the others that it uses; those that it is a part of left out.
    pub(super) fn uses(&self) -> Vec<Vec<usize>> {
        let each = |file: &File| {
            let used: BTreeSet<usize> = file
                .paths
                .iter()
                .filter_map(|path| self.defining(path, MAX_REEXPORTS))
                // Itself, and the modules around it.
                .filter(|&used| !file.module.starts_with(&self.files[used].module))
                .collect();
            used.into_iter().collect()
        };
        self.files.iter().map(each).collect()
    }

    /// The file that defines what a path names: the longest module that it goes through, or where
    /// that module takes the name from.
    fn defining(&self, path: &[String], left: usize) -> Option<usize> {
        let (index, file) = self
            .files
            .iter()
            .enumerate()
            .filter(|(_, file)| path.starts_with(&file.module))
            .max_by_key(|(_, file)| file.module.len())?;
        let rest = &path[file.module.len()..];
        let from = rest.first().and_then(|name| file.bound.get(name));
        match from {
            Some(from) if left > 0 => {
                let further: Vec<String> = from.iter().chain(&rest[1..]).cloned().collect();
                self.defining(&further, left - 1)
            }
            Some(_) | None => Some(index),
        }
    }
}

/// The module that a file is, by its path from `src/`.
fn module_of(name: &str) -> Module {
    let stem = name.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" => Vec::new(),
        _ => stem.split('/').map(str::to_owned).collect(),
    }
}

impl File {
    fn read(source: &SourceFile, name: &str, modules: &BTreeSet<Module>) -> Self {
        let module = module_of(name);
        let is_test = test_lines(&source.text);
        let code: String = code_only(&source.text)
            .lines()
            .zip(is_test)
            .filter(|(_, is_test)| !is_test)
            .flat_map(|(line, _)| [line, "\n"])
            .collect();
        let tokens = tokens(&code);
        let mut reader = Reader {
            tokens: &tokens,
            at: 0,
            modules,
            within: vec![(module.clone(), 0)],
            depth: 0,
            paths: Vec::new(),
            bound: BTreeMap::new(),
        };
        reader.all();
        let (paths, bound) = (reader.paths, reader.bound);
        Self {
            name: name.to_owned(),
            module,
            paths,
            bound,
        }
    }
}

/// Words, `::`, and single other characters.
fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    modules: &'a BTreeSet<Module>,
    /// The modules around this place: the file's, then those that are written out in it, each with
    /// the depth of braces behind which it ends.
    within: Vec<(Module, usize)>,
    depth: usize,
    paths: Vec<Vec<String>>,
    bound: BTreeMap<String, Vec<String>>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).copied().unwrap_or("")
    }

    fn here(&self) -> &[String] {
        self.within.last().map_or(&[], |(module, _)| module)
    }

    fn all(&mut self) {
        while self.at < self.tokens.len() {
            match self.peek(0) {
                // Not the list of what a type captures.
                "use" if self.peek(1) != "<" => {
                    self.at += 1;
                    self.tree(None);
                }
                "mod" if self.peek(2) == "{" => {
                    let name = self.peek(1).to_owned();
                    let module = [self.here(), &[name]].concat();
                    self.within.push((module, self.depth));
                    self.depth += 1;
                    self.at += 3;
                }
                "{" => {
                    self.depth += 1;
                    self.at += 1;
                }
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.within.len() > 1
                        && self
                            .within
                            .last()
                            .is_some_and(|(_, end)| *end == self.depth)
                    {
                        self.within.pop();
                    }
                    self.at += 1;
                }
                // `pub(in crate::a)` uses nothing; `$crate`, a method and `::std` begin no path.
                "in" if self.at > 0 && self.tokens[self.at - 1] == "(" => {
                    while !matches!(self.peek(0), ")" | "") {
                        self.at += 1;
                    }
                }
                "$" | "::" | "." => self.at += 2,
                _ if self.peek(1) == "::" => self.path_in_code(),
                _ => self.at += 1,
            }
        }
    }

    fn path_in_code(&mut self) {
        let mut path = vec![self.peek(0).to_owned()];
        self.at += 1;
        while self.peek(0) == "::"
            && self
                .peek(1)
                .starts_with(|c: char| c.is_alphabetic() || c == '_')
        {
            path.push(self.peek(1).to_owned());
            self.at += 2;
        }
        if let Some(path) = self.absolute(&path) {
            self.paths.push(path);
        }
    }

    /// A tree of a `use`, to its end; `above` is what stands before it.
    fn tree(&mut self, above: Option<&[String]>) {
        let mut path = above.map(<[String]>::to_vec).unwrap_or_default();
        loop {
            match self.peek(0) {
                "{" => {
                    self.at += 1;
                    while !matches!(self.peek(0), "}" | ";" | "") {
                        self.tree(Some(&path));
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "," | "}" | ";" | "" => return self.bind(&path, None),
                "::" => self.at += 1,
                "as" => {
                    let name = self.peek(1).to_owned();
                    self.at += 2;
                    return self.bind(&path, Some(&name));
                }
                word => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
            }
        }
    }

    fn bind(&mut self, path: &[String], name: Option<&str>) {
        let mut path = path.to_vec();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let Some(path) = self.absolute(&path) else {
            return;
        };
        // What a module within the file binds is seen in that module alone.
        if self.within.len() == 1
            && let Some(name) = name.or(path.last().map(String::as_str))
            && !matches!(name, "_" | "*")
        {
            self.bound.insert(name.to_owned(), path.clone());
        }
        self.paths.push(path);
    }

    /// The path from the crate's root; `None` where it leads out of the crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = self.here().to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &path[1..];
            }
            "self" if path.len() > 1 => rest = &path[1..],
            "super" => {}
            first => {
                base.push(first.to_owned());
                if !self.modules.contains(&base) {
                    return None;
                }
                rest = &path[1..];
            }
        }
        while let Some("super") = rest.first().map(String::as_str) {
            base.pop()?;
            rest = &rest[1..];
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }
}
