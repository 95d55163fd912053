//! x
#![allow(clippy::unwrap_used)]
use std::time::Instant;
use tegula_kernel::codecs::{Value, build};
fn best(mut f: impl FnMut(), bytes: usize) -> f64 {
    let mut b = f64::MAX;
    let t0 = Instant::now();
    let mut n = 0;
    while n < 3 || (t0.elapsed().as_secs_f64() < 0.12 && n < 2000) {
        let t = Instant::now();
        f();
        b = b.min(t.elapsed().as_secs_f64());
        n += 1;
    }
    bytes as f64 / b / 1e6
}
fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let size: usize = args.remove(0).parse().unwrap();
    let spec = args.remove(0);
    let mut it = spec.split(';');
    let name = it.next().unwrap();
    let opts: Vec<Value> = it
        .map(|t| {
            let (k, r) = t.split_at(1);
            match k {
                "i" => Value::Int(r.parse().unwrap()),
                "f" => Value::Float(r.parse().unwrap()),
                "b" => Value::Bool(r == "true"),
                "t" => Value::Text(r.into()),
                _ => Value::None,
            }
        })
        .collect();
    let codec = build(name, &opts).unwrap();
    for file in args {
        let mut data = std::fs::read(format!("/tmp/kc/{file}.raw")).unwrap();
        data.truncate(size);
        let mut out = Vec::new();
        codec.encode(&data, &mut out).unwrap();
        let e = best(|| codec.encode(&data, &mut out).unwrap(), data.len());
        let mut back = vec![0; data.len()];
        let d = best(|| codec.decode(&out, &mut back).unwrap(), data.len());
        println!("{spec} {file} {size} {} {e:.0} {d:.0}", out.len());
    }
}
