// SPDX-License-Identifier: MIT OR Apache-2.0
//
// In place of libbpf's header: unwinding needs nothing of it.
