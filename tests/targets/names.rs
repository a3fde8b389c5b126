// Functions with every kind of name that a Rust program has, each called; prints how often, where one is counted.
use std::collections::HashMap;
use std::fmt::Display;

pub struct Wrap<T, const N: usize>([T; N]);
pub struct Flags<const B: bool, const X: char, const I: i8>;
pub struct Square(f64);
pub trait Shape {
    fn area(&self) -> f64;
    fn twice(&self) -> f64 {
        self.area() * 2.0
    }
}
impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
impl<'a> Shape for &'a Square {
    #[inline(never)]
    fn area(&self) -> f64 {
        self.0
    }
}
impl<T: Display, const N: usize> Wrap<T, N> {
    #[inline(never)]
    pub fn show(&self) -> String {
        self.0.iter().map(|each| format!("{each}!")).collect()
    }
}
impl<const B: bool, const X: char, const I: i8> Flags<B, X, I> {
    #[inline(never)]
    pub fn show(&self) -> String {
        format!("{B}{X}{I}")
    }
}
mod gödel {
    #[inline(never)]
    pub fn escher(number: u64) -> u64 {
        number + std::env::args().count() as u64
    }
}
#[inline(never)]
pub fn of_any<T: Display>(value: T) -> String {
    format!("{value}")
}
#[inline(never)]
pub fn calls(function: fn(&u8, &str) -> i32) -> i32 {
    function(&1, "a")
}
#[inline(never)]
pub unsafe fn calls_c(function: unsafe extern "C" fn(u8) -> u8) -> u8 {
    unsafe { function(1) }
}
#[inline(never)]
pub fn calls_any(function: Box<dyn for<'a> Fn(&'a str) -> &'a str + Send>) -> usize {
    function("abc").len()
}
#[inline(never)]
pub fn sized<A, B>(_: (A,), _: B, _: *const A, _: *mut B) -> usize {
    std::mem::size_of::<(A, B)>()
}
extern "C" fn in_c(number: u8) -> u8 {
    number
}

fn main() {
    let mut said = vec![Wrap([1, 2, 3]).show(), Wrap(["a", "b"]).show(), of_any(1u8), of_any("x")];
    said.push(Flags::<true, 'x', -3>.show() + &Flags::<false, '\u{1f600}', 5>.show());
    let area = Square(2.0).twice() + (&Square(2.0)).twice();
    let mut total = calls(|a, b| *a as i32 + b.len() as i32) as usize + calls_any(Box::new(|text| text));
    total += unsafe { calls_c(in_c) } as usize + sized((1u8,), [1i64; 3], &1u8, &mut [1i64; 3]);
    for number in 0..7 {
        total += gödel::escher(number) as usize;
    }
    let known: HashMap<String, usize> = HashMap::from([("total".into(), total)]);
    std::thread::spawn(move || eprintln!("{said:?} {area} {known:?}")).join().unwrap();
}
