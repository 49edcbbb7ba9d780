//! A program on a pseudo-terminal, whose screen is read as a terminal shows it.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::wait_until;

/// A size of the screen, as `vt100` takes it.
fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a screen has cells")
}

/// A program on a terminal of its own.
pub struct Terminal {
    pub child: Child,
    master: File,
    /// Kept open, so that its state can be read when all others have left it.
    slave: OwnedFd,
    pub screen: Arc<Mutex<vt100::Parser>>,
    /// How the terminal was before.
    before: libc::termios,
}

fn attributes(terminal: &OwnedFd) -> libc::termios {
    let mut attributes = std::mem::MaybeUninit::zeroed();
    // SAFETY: The call writes to the structure.
    unsafe {
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), attributes.as_mut_ptr()), 0);
        attributes.assume_init()
    }
}

impl Terminal {
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (-1, -1);
        // SAFETY: The call writes two descriptors, which nobody else has.
        let (master, slave) = unsafe {
            let nothing = std::ptr::null_mut();
            assert_eq!(
                libc::openpty(
                    &raw mut master,
                    &raw mut slave,
                    nothing,
                    nothing.cast(),
                    &raw const size
                ),
                0
            );
            (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
        };
        // SAFETY: The call takes a descriptor and a number.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let before = attributes(&slave);
        let stream = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.stdin(stream()).stdout(stream()).stderr(stream());
        command.env("TERM", "xterm-256color").env_remove("COLORTERM").env_remove("NO_COLOR");
        // SAFETY: Both calls are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("it runs");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(rows), cells(columns), 0)));
        let (seen, mut reader) = (Arc::clone(&screen), master.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                seen.lock().expect("no panic").process(&buffer[..count]);
            }
        });
        Self { child, master, slave, screen, before }
    }

    /// The screen, a line a row, without blanks at the ends.
    pub fn text(&self) -> String {
        let parser = self.screen.lock().expect("no panic");
        let screen = parser.screen();
        let (rows, columns) = screen.size();
        let row = |row: u16| {
            let cells = (0..columns.get()).filter_map(|column| screen.cell(row, column));
            let cells = cells.filter(|cell| !cell.is_wide_continuation());
            let texts = cells.map(|cell| if cell.has_contents() { cell.contents() } else { " " });
            texts.collect::<String>().trim_end().to_owned()
        };
        let rows: Vec<String> = (0..rows.get()).map(row).collect();
        rows.join("\n").trim_end().to_owned()
    }

    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("it can be typed");
    }

    /// Waits until the screen shows something.
    pub fn wait_for(&self, what: &str) {
        let last = Mutex::new(String::new());
        let shows = || {
            let text = self.text();
            let found = text.contains(what);
            *last.lock().expect("no panic") = text;
            found
        };
        let start = std::time::Instant::now();
        while !shows() {
            let last = last.lock().expect("no panic");
            assert!(start.elapsed() < Duration::from_secs(120), "no {what} in:\n{last}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: The call takes two numbers.
        unsafe { libc::kill(self.child.id().try_into().expect("a process"), signal) };
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        self.screen.lock().expect("no panic").screen_mut().set_size(cells(rows), cells(columns));
        // SAFETY: The call reads the structure.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }

    /// Waits for the end; the terminal must be as it was.
    pub fn end(mut self) -> ExitStatus {
        let mut status = None;
        wait_until("it ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        self.check_restored();
        status.expect("it has ended")
    }

    pub fn check_restored(&self) {
        let after = attributes(&self.slave);
        let flags = |of: &libc::termios| (of.c_iflag, of.c_oflag, of.c_cflag, of.c_lflag, of.c_cc);
        assert_eq!(flags(&after), flags(&self.before), "as stty -a shows it");
        let is_plain = || {
            let parser = self.screen.lock().expect("no panic");
            let screen = parser.screen();
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        };
        wait_until("the screen is given back", is_plain);
    }
}
