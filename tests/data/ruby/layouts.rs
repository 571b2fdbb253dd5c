// SPDX-License-Identifier: Apache-2.0
//
// Offsets of Ruby's structures as the crate rbspy-ruby-structs has them, for tests/e2e/test_ruby_layouts.py. It puts `mod ruby`, the
// file of one version, before this text, and gives a cfg below_X_Y for each version X.Y that this one is older than.
use ruby::*;
use std::mem::{offset_of, size_of};

macro_rules! say {
    ($what:ident, $type:ty, $($field:tt)+) => { println!("{} {}", stringify!($what), offset_of!($type, $($field)+)) };
}

fn main() {
    say!(EC_STACK, rb_execution_context_struct, vm_stack);
    say!(EC_STACK_WORDS, rb_execution_context_struct, vm_stack_size);
    say!(EC_FRAME, rb_execution_context_struct, cfp);
    say!(EC_THREAD, rb_execution_context_struct, thread_ptr);
    #[cfg(below_3_0)]
    say!(THREAD_ID, rb_thread_struct, thread_id);
    println!("FRAME_BYTES {}", size_of::<rb_control_frame_struct>());
    say!(FRAME_POSITION, rb_control_frame_struct, pc);
    say!(FRAME_CODE, rb_control_frame_struct, iseq);
    say!(FRAME_ENV, rb_control_frame_struct, ep);
    say!(CODE_BODY, rb_iseq_struct, body);
    say!(BODY_TYPE, rb_iseq_constant_body, type_);
    say!(BODY_WORDS, rb_iseq_constant_body, iseq_size);
    say!(BODY_START, rb_iseq_constant_body, iseq_encoded);
    say!(BODY_FILE, rb_iseq_constant_body, location.pathobj);
    say!(BODY_NAME, rb_iseq_constant_body, location.label);
    say!(BODY_FIRST_LINE, rb_iseq_constant_body, location.first_lineno);
    say!(BODY_PARENT, rb_iseq_constant_body, parent_iseq);
    #[cfg(below_2_6)]
    {
        say!(BODY_LINES, rb_iseq_constant_body, insns_info);
        say!(BODY_N_LINES, rb_iseq_constant_body, insns_info_size);
        say!(LINE_POSITION, iseq_insn_info_entry, position);
    }
    #[cfg(not(below_2_6))]
    {
        say!(BODY_LINES, rb_iseq_constant_body, insns_info.body);
        say!(BODY_N_LINES, rb_iseq_constant_body, insns_info.size);
        say!(BODY_LINE_INDEX, rb_iseq_constant_body, insns_info.succ_index_table);
    }
    println!("LINE_BYTES {}", size_of::<iseq_insn_info_entry>());
    say!(LINE_NUMBER, iseq_insn_info_entry, line_no);
    #[cfg(below_3_2)]
    println!("STR_EMBEDDED {}", offset_of!(RString, as_));
    #[cfg(not(below_3_2))]
    println!("STR_EMBEDDED {}", offset_of!(RString, as_) + offset_of!(RString__bindgen_ty_1__bindgen_ty_2, ary));
    println!("STR_POINTER {}", offset_of!(RString, as_) + offset_of!(RString__bindgen_ty_1__bindgen_ty_1, ptr));
    println!("ARRAY_EMBEDDED {}", offset_of!(RArray, as_));
    println!("ARRAY_POINTER {}", offset_of!(RArray, as_) + offset_of!(RArray__bindgen_ty_1__bindgen_ty_1, ptr));
    say!(METHOD_DEFINITION, rb_method_entry_struct, def);
    say!(METHOD_OWNER, rb_method_entry_struct, owner);
    say!(DEFINITION_ID, rb_method_definition_struct, original_id);
    #[cfg(not(below_3_4))]
    {
        say!(CLASS_PATH, RClass_and_rb_classext_t, classext.classpath);
        say!(CLASS_IS_NAMED, RClass_and_rb_classext_t, classext._bitfield_1);
        say!(CLASS_ATTACHED, RClass_and_rb_classext_t, classext.as_);
    }
}
