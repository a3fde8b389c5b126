// A method that is inlined: `inlined N` prints how often it was called, and the prices together.
use std::hint::black_box;

struct Cart { total: i64, adds: i64 }

impl Cart {
    #[inline(always)]
    fn add(&mut self, price: i64) -> i64 {
        self.adds += 1;
        self.total += black_box(price);
        self.total
    }
}

#[inline(never)]
fn one(cart: &mut Cart, n: i64) -> i64 { cart.add(n) + 1 }

#[inline(never)]
fn two(cart: &mut Cart, n: i64) -> i64 {
    let sum = cart.add(n * 2);
    if n % 2 == 1 { cart.add(n + 7) } else { sum }
}

fn main() {
    let rounds: i64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let (mut cart, mut sum) = (Cart { total: 0, adds: 0 }, 0);
    for i in 0..rounds {
        sum += black_box(one(&mut cart, i) + two(&mut cart, i));
    }
    println!("add {} {}", cart.adds, cart.total);
    assert!(sum != 1);
}
