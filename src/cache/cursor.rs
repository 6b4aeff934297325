//! What a place in the journal is called to clients.

use aes::Aes128;
use aes::cipher::{BlockEncrypt as _, KeyInit as _};

use crate::ray::revision::hex;

/// Names places in this process's journal. The numbers count the changes of every cluster, so they are encrypted: whoever
/// may see few clusters doesn't learn how much goes on in the others.
pub struct Cursors {
    /// Tells cursors of this process from those of another.
    epoch: String,
    cipher: Aes128,
}

impl Cursors {
    pub(super) fn new() -> Self {
        let key: [u8; 16] = rand::random();
        Self { epoch: uuid::Uuid::new_v4().simple().to_string(), cipher: Aes128::new(&key.into()) }
    }

    /// What the place after this number is called.
    #[must_use]
    pub fn name(&self, sequence: u64) -> String {
        let mut block = [0; 16];
        let (number, _) = block.split_at_mut(8);
        number.copy_from_slice(&sequence.to_be_bytes());
        let mut block = block.into();
        self.cipher.encrypt_block(&mut block);
        format!("{}.{}", self.epoch, hex(&block))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_differ_and_tell_no_number() {
        let (cursors, others) = (Cursors::new(), Cursors::new());
        let names: HashSet<_> = (0..100).map(|number| cursors.name(number)).collect();
        assert_eq!(names.len(), 100);
        assert_eq!(cursors.name(7), cursors.name(7));
        let place = |cursors: &Cursors| cursors.name(7).split('.').next_back().map(str::to_owned);
        assert_ne!(place(&cursors), place(&others), "another process names the same place otherwise");
    }
}
