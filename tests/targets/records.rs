// A function that takes slices, enums and structs by reference and by value.
#[repr(C)]
pub struct P {
    a: i32,
    b: i64,
    c: u8,
}

pub enum Shape {
    Rect { w: u32, h: u32 },
    Unit,
}

#[derive(Clone, Copy)]
pub enum Plain {
    A = 3,
    B = 9,
}

pub struct Array {
    x: [i32; 1],
    y: i8,
}

#[inline(never)]
pub fn holds(first: i32, a: Array, last: i8) -> i32 {
    first + a.x[0] + a.y as i32 + last as i32
}

#[inline(never)]
pub fn takes(s: &str, v: &[i32], n: u32, e: Plain, sh: &Shape, p: &P, t: P) -> usize {
    let area = match sh {
        Shape::Rect { w, h } => (*w + *h) as usize,
        Shape::Unit => 1,
    };
    s.as_bytes()[0] as usize + v[2] as usize + n as usize + e as usize + area + (p.a as i64 + p.b + p.c as i64) as usize
        + (t.a as i64 + t.b + t.c as i64) as usize
}

fn main() {
    let unit = Shape::Unit;
    let mut total = std::mem::size_of_val(&unit);
    for i in 0..100 {
        let e = if i % 2 == 1 { Plain::B } else { Plain::A };
        let p = P { a: 1, b: 2, c: 3 };
        total += takes("hello rust", &[1, 2, 3, 4], i, e, &Shape::Rect { w: 5, h: i }, &p, P { a: 11, b: 12, c: 13 });
        total += holds(i as i32, Array { x: [i as i32 * 2], y: 7 }, 9) as usize;
    }
    println!("{}", total);
}
