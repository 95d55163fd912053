//! The members of objects in JSON texts: located, or left to a full parse.

use tegula_kernel::json::{FIELDS, index_members};

fn keys(text: &str, chain: &[&str]) -> Option<Vec<Vec<(String, String)>>> {
    let levels = index_members(text.as_bytes(), chain)?;
    let slice = |a: u32, b: u32| text[a as usize..b as usize].to_owned();
    let read =
        |level: Vec<u32>| level.chunks(FIELDS).map(|m| (slice(m[0], m[1]), slice(m[2], m[3]))).collect::<Vec<_>>();
    Some(levels.into_iter().map(read).collect())
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn members_are_listed_along_the_chain() {
    let text = "{ \"a\" : 1,\n\"m\": {\"x\": {\"m\": 2}, \"y\": [\"}\"]\t} , \"b\":\"\"}\n";
    assert_eq!(keys(text, &[]), Some(vec![pairs(&[("a", "1"), ("m", &text[16..44]), ("b", "\"\"")])]));
    assert_eq!(keys(text, &["m"]).map(|l| l[1].clone()), Some(pairs(&[("x", "{\"m\": 2}"), ("y", "[\"}\"]")])));
    assert_eq!(keys(text, &["m", "x"]).map(|l| l[2].clone()), Some(pairs(&[("m", "2")])));
    assert_eq!(keys(text, &["a"]).map(|l| l.len()), Some(1));
    assert_eq!(keys(text, &["none"]).map(|l| l.len()), Some(1));
    assert_eq!(keys("{}", &["m"]), Some(vec![vec![]]));
}

#[test]
fn strings_do_not_fool_it() {
    let text = r#"{"a":"\"m\":{\\","m":{"k\u0041":1}}"#;
    assert_eq!(keys(text, &[]).map(|l| l[0].len()), Some(2));
    assert_eq!(keys(text, &["m"]), None); // an escape in a key that is listed
    assert_eq!(keys(r#"{"a\/b":1}"#, &[]), None);
    assert_eq!(keys(r#"{"é":"ü\ud800"}"#, &[]), Some(vec![pairs(&[("é", r#""ü\ud800""#)])]));
}

#[test]
fn a_key_of_the_chain_may_occur_only_once_there() {
    assert_eq!(keys(r#"{"m":{},"m":{"x":1}}"#, &["m"]), None);
    assert_eq!(keys(r#"{"m":{"x":1,"x":2}}"#, &["m"]).map(|l| l[1].len()), Some(2));
    assert_eq!(keys(r#"{"a":{"m":1,"m":2},"m":{}}"#, &["m"]).map(|l| l.len()), Some(2));
}

#[test]
fn it_takes_the_values_that_a_parser_takes() {
    let good = "0 -0 12 -1.5 1e9 1E+05 0.1e-3 true false null NaN Infinity -Infinity \"\" \"\\n\\u00e9\" [] {} [[],{}] \
                [1,[2]] {\"a\":{\"b\":[{}]}}";
    for value in good.split(' ') {
        assert_eq!(keys(&format!("{{\"v\":{value}}}"), &[]), Some(vec![pairs(&[("v", value)])]), "{value}");
    }
    let bad = "01 - 1. .5 1e +1 tru nul nan -NaN Inf [1,] [,1] [1 {\"a\"} {\"a\":} {\"a\":1,} {1:2} [} {] [{]} ' \
               \"\\x\" \"\\u12g4\" \"a 1,2: ] } [[] 1_0 0x1 --1 1e5.0 \"\\";
    for value in bad.split(' ') {
        assert_eq!(keys(&format!("{{\"v\":{value}}}"), &[]), None, "{value}");
        assert_eq!(keys(&format!("{{\"v\":[{value}]}}"), &[]), None, "{value}");
    }
}

#[test]
fn a_text_that_is_cut_or_changed_is_refused() {
    let text = r#"{"m":{"a":[1,2,{"b":"c"}],"d":-1.5e3},"n":null}"#;
    assert!(index_members(text.as_bytes(), &["m"]).is_some());
    for end in 0..text.len() {
        assert_eq!(index_members(&text.as_bytes()[..end], &["m"]), None, "{end}");
    }
    for position in 0..text.len() {
        for byte in [0, b'"', b'{', b'}', b'[', b']', b',', b':', b'\\', b'\n', 0x80, 0xff] {
            let mut changed = text.as_bytes().to_vec();
            changed[position] = byte;
            let _ = index_members(&changed, &["m"]); // any result will do, but the call must return
        }
    }
    for text in ["", " ", "[]", "1", "{}{}", "{} 1", "\u{feff}{}", "{\"a\":\"\n\"}", "{\"a\":\"\u{1f}bcdefghi\"}"] {
        assert_eq!(index_members(text.as_bytes(), &[]), None, "{text:?}");
    }
    assert_eq!(index_members(b"{\"a\":\"\xff\"}", &[]), None);
}

#[test]
fn depth_and_digits_are_limited() {
    let nested = |depth| format!("{{\"v\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(index_members(nested(50).as_bytes(), &[]).is_some());
    assert!(index_members(nested(64).as_bytes(), &[]).is_none());
    assert!(index_members(nested(1_000_000).as_bytes(), &[]).is_none());
    let number = |digits| format!("{{\"v\":{}}}", "1".repeat(digits));
    assert!(index_members(number(4000).as_bytes(), &[]).is_some());
    assert!(index_members(number(5000).as_bytes(), &[]).is_none());
}

#[test]
fn brackets_in_strings_are_no_levels() {
    for inner in [r#""[{[{""#, r#""\"[""#, r#""\\",[]"#, "[[]]", "{\"[\":[]}"] {
        let flat = vec![inner; 100].join(",");
        assert!(index_members(format!("{{\"v\":[{flat}]}}").as_bytes(), &[]).is_some(), "{inner}");
        let deep = format!("{{\"v\":[{flat},{}{}]}}", "[".repeat(60), "]".repeat(60));
        assert!(index_members(deep.as_bytes(), &[]).is_none(), "{inner}");
    }
}

#[test]
fn words_for_numbers_are_words_of_their_own() {
    let text = r#"{"a NaN b":[ NaN,-Infinity ,Infinity],"m":{"c, NaN ":"[NaN]"}}"#;
    let root = pairs(&[("a NaN b", "[ NaN,-Infinity ,Infinity]"), ("m", r#"{"c, NaN ":"[NaN]"}"#)]);
    assert_eq!(keys(text, &["m"]), Some(vec![root, pairs(&[("c, NaN ", "\"[NaN]\"")])]));
    assert_eq!(index_members(b"{\"123456789\":0}", &[]).map(|levels| levels[0][4]), Some(0xCBF4_3926)); // zlib's
    for bad in ["1NaN", "NaN1", "1 NaN", "NaN NaN", "-NaN", "+Infinity", "- Infinity", "NaN\u{b}"] {
        assert_eq!(keys(&format!("{{\"v\":{bad}}}"), &[]), None, "{bad}");
    }
    assert_eq!(keys("{ NaN :1}", &[]), None);
}

#[test]
fn blocks_of_bytes_miss_nothing() {
    for length in 0..140 {
        let inner = "x".repeat(length);
        for end in ["", "é", "\\\\", "\\\"", "\\u00e9\\\\\\\\"] {
            let text = format!("{{{}\"k\":\"{inner}{end}\"}}", " ".repeat(length));
            assert_eq!(keys(&text, &[]).map(|l| l[0][0].1.len()), Some(length + end.len() + 2));
        }
        for bad in ["\u{0}", "\u{1f}", "\n"] {
            assert_eq!(index_members(format!("{{\"k\":\"{inner}{bad}{inner}\"}}").as_bytes(), &[]), None);
        }
    }
}
