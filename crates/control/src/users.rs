//! Names of users.

use std::collections::HashMap;

/// Names of users by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Users(HashMap<u32, String>);

impl Users {
    /// Those of this machine; without a list of them, none.
    pub fn of_this_machine() -> Self {
        Self::parse(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    /// From the text of `/etc/passwd`.
    pub fn parse(passwd: &str) -> Self {
        let user = |line: &str| {
            let mut fields = line.split(':');
            let (name, uid) = (fields.next()?, fields.nth(1)?);
            Some((uid.parse().ok()?, name.to_owned()))
        };
        Self(passwd.lines().filter_map(user).collect())
    }

    /// The name of a user, or the number.
    pub fn name(&self, uid: u32) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_has_a_number() {
        let users = Users::parse("root:x:0:0::/root:/bin/sh\nbroken\nada:x:1000:1000::/:/bin/sh\n");
        assert_eq!([0, 1000, 7].map(|uid| users.name(uid)), ["root", "ada", "7"]);
    }
}
