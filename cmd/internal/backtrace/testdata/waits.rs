// waits reads from standard input, by a function that the compiler put into another.

mod net {
    extern "C" {
        fn read(fd: i32, buf: *mut u8, n: usize) -> isize;
    }
    #[inline(always)]
    fn inlined(fd: i32) -> isize {
        let mut b = 0u8;
        let n = unsafe { read(fd, &mut b, 1) }; /* INLINED */
        n + b as isize
    }
    #[inline(never)]
    pub fn waits(fd: i32) -> isize {
        inlined(fd) + 1 /* WAITS */
    }
}

fn main() {
    let fd = std::env::args().count() as i32 - 1;
    std::process::exit((net::waits(fd) == 99) as i32); /* MAIN */
}
