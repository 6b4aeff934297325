//! What is wrong with a value, in words for the person who sent it.

use super::{Breach, Kind, Step, Test, What};
use crate::ray::fault::{Fault, FaultCode, escape, kind_name};

impl Breach<'_> {
    /// The same for a person, at its JSON pointer under this one.
    pub(super) fn fault(&self, pointer: &str) -> Fault {
        let place = self.place.iter().fold(pointer.to_owned(), |place, step| match step {
            Step::Member(name) => format!("{place}/{}", escape(name)),
            Step::Index(index) => format!("{place}/{index}"),
        });
        let fault = |code: FaultCode, message: String| Fault::new(place.clone(), code, message);
        match &self.what {
            What::Unknown(name) => {
                let known: Vec<&str> = self.schema.members().collect();
                Fault::unknown(place, FaultCode::UnknownMember, name, &known)
            }
            What::Required(name) => fault(FaultCode::Required, format!("`{name}` is required.")),
            What::Type(value) => {
                let message = format!("This takes {}, not {}.", self.schema.kind.in_words(), kind_name(value));
                fault(FaultCode::WrongType, message)
            }
            What::Range(number) => {
                let range = self.schema.range();
                let message = format!("{number} is not between {} and {}.", range.start(), range.end());
                fault(FaultCode::OutOfRange, message)
            }
            What::BelowMinimum(number, minimum) => {
                fault(FaultCode::OutOfRange, format!("{number} is too little; {minimum} is the least."))
            }
            What::NotAllowed(text) => {
                fault(FaultCode::InvalidValue, format!("`{text}` is not taken here.")).allowing(&self.schema.allowed)
            }
            What::Pattern(text) | What::NoQuantity(text) if self.schema.is_quantity() => fault(
                FaultCode::InvalidQuantity,
                format!("`{text}` is no quantity; write a number and perhaps a unit, like `2`, `500m`, `4Gi`."),
            ),
            What::Pattern(text) | What::NoQuantity(text) => {
                let pattern = self.schema.pattern().unwrap_or_default();
                fault(FaultCode::InvalidValue, format!("`{text}` doesn't match the pattern `{pattern}`."))
            }
            What::NoTime(text) => {
                let message = format!("`{text}` is no time; write one like `2026-01-31T12:00:00Z`.");
                fault(FaultCode::InvalidValue, message)
            }
            What::TooShort(_, least) => {
                fault(FaultCode::OutOfRange, format!("This takes at least {least} characters."))
            }
            What::TooLong(_, most) => fault(FaultCode::OutOfRange, format!("This takes at most {most} characters.")),
            What::Duplicate(key) => {
                fault(FaultCode::InvalidValue, format!("Duplicate value: an earlier entry has {key} too."))
            }
            What::Rule(rule, value) => {
                let allowed = match &rule.test {
                    Test::Immutable => &[][..],
                    Test::OneOf(allowed) => allowed,
                };
                let message = format!("{value} is not taken here: {}.", rule.message);
                fault(FaultCode::InvalidValue, message).allowing(allowed)
            }
        }
    }
}

impl Kind {
    fn in_words(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer => "a whole number",
            Self::String => "a string",
            Self::Array => "a list",
            Self::Object => "an object",
            Self::IntOrString => "a whole number or a string",
        }
    }
}
