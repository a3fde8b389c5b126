use std::collections::HashMap;
use std::thread;

// Closures, trait objects, a panic that is caught, threads: all of them allocate.
trait Shape {
    fn area(&self, depth: u64) -> u64;
}
struct Square(u64);
struct Named(String);

#[inline(never)]
fn leaf(count: u64) -> u64 {
    let all: Vec<u64> = (0..count % 7 + 1).collect();
    all.iter().sum()
}

impl Shape for Square {
    fn area(&self, depth: u64) -> u64 {
        if depth == 0 { leaf(self.0) } else { self.area(depth - 1) + 1 }
    }
}

impl Shape for Named {
    fn area(&self, depth: u64) -> u64 {
        leaf(depth) + self.0.clone().len() as u64
    }
}

fn main() {
    let mut shapes: HashMap<u64, Box<dyn Shape + Send>> = HashMap::new();
    for each in 0..40 {
        if each % 2 == 0 {
            shapes.insert(each, Box::new(Square(each)));
        } else {
            shapes.insert(each, Box::new(Named(format!("x{}", each))));
        }
    }
    let mut total: u64 = shapes.iter().map(|(each, shape)| shape.area(each % 5)).sum();
    let threads: Vec<_> = (0..3)
        .map(|each| thread::spawn(move || std::panic::catch_unwind(|| if each == 1 { panic!() } else { leaf(each) })))
        .collect();
    for each in threads {
        total += each.join().unwrap().unwrap_or(7);
    }
    println!("{}", total);
}
