//! Writes a type as C does: `const struct sk_buff *`, `void (*)(struct sk_buff *)`, `char[16]`.

use super::blob::Kind;
use super::{Btf, BtfError, Id};

/// Types one name may be made of. The longest of a real kernel need a dozen; made-up bytes can nest for ever.
const BUDGET: u32 = 256;

impl Btf {
    /// The C type with this number; base types are spelled as DWARF does (`long unsigned int`), tags are left out.
    pub(super) fn c_type(&self, id: Id) -> Result<String, BtfError> {
        self.declare(id, String::new(), &mut { BUDGET })
    }

    /// C writes types inside out: `inner` is what was written so far, around the place of the variable's name.
    fn declare(&self, id: Id, inner: String, budget: &mut u32) -> Result<String, BtfError> {
        *budget = budget.checked_sub(1).ok_or(BtfError::TooDeep(id))?;
        let ty = self.get(id)?;
        let target = ty.size_or_id;
        match ty.kind {
            Kind::Ptr => {
                let inner = match self.skip_modifiers(target)?.1.kind {
                    Kind::Array | Kind::FuncProto => format!("(*{inner})"),
                    _ => format!("*{inner}"),
                };
                self.declare(target, inner, budget)
            }
            Kind::Const => self.qualify("const", target, inner, budget),
            Kind::Volatile => self.qualify("volatile", target, inner, budget),
            Kind::Restrict => self.qualify("restrict", target, inner, budget),
            Kind::TypeTag => self.declare(target, inner, budget),
            Kind::Array => {
                let (element, length) = self.array(id)?;
                self.declare(element, format!("{inner}[{length}]"), budget)
            }
            Kind::FuncProto => {
                let mut parameters = Vec::new();
                for parameter in self.parameters(id)? {
                    parameters.push(if parameter == 0 {
                        "...".to_owned()
                    } else {
                        self.declare(parameter, String::new(), budget)?
                    });
                }
                if parameters.is_empty() {
                    parameters.push("void".to_owned());
                }
                let inner = format!("{inner}({})", parameters.join(", "));
                self.declare(target, inner, budget)
            }
            _ => {
                let word = match ty.kind {
                    Kind::Union => "union ",
                    Kind::Fwd if ty.flag => "union ",
                    Kind::Struct | Kind::Fwd => "struct ",
                    Kind::Enum | Kind::Enum64 => "enum ",
                    _ => "",
                };
                let name = match ty.kind {
                    Kind::Void => "void".into(),
                    _ if ty.name == 0 => "{…}".into(),
                    _ => self.name(id, ty.name)?,
                };
                let space = if inner.is_empty() || inner.starts_with('[') {
                    ""
                } else {
                    " "
                };
                Ok(format!("{word}{name}{space}{inner}"))
            }
        }
    }

    fn qualify(
        &self,
        word: &str,
        target: Id,
        inner: String,
        budget: &mut u32,
    ) -> Result<String, BtfError> {
        // `char * const`: a qualifier of a pointer stands behind its star; of anything else, in front of it all.
        if self.get(target)?.kind == Kind::Ptr {
            let space = if inner.is_empty() { "" } else { " " };
            return self.declare(target, format!(" {word}{space}{inner}"), budget);
        }
        Ok(format!("{word} {}", self.declare(target, inner, budget)?))
    }
}
