package main

// #include <stdlib.h>
// #include "emq.h"
import "C"

import (
	"runtime"
	"slices"
	"unsafe"

	"emq/commands"
	"emq/fence"
)

// build is the commit that the library was built from; the Makefile sets it.
var build = "unknown"

// emqDescription describes the module for the load line of the log, in memory for C to free.
//
//export emqDescription
func emqDescription() (text *C.char) {
	var ok C.int
	defer guard(&ok)
	return C.CString(commands.Version + ", wire " + fence.Identity + ", build " + build + ", " + runtime.Version())
}

// emqRegister passes the constants and the command table to C and to the server. It returns NULL, or the step that
// failed. It runs once, at load; what C keeps is in C's own memory.
//
//export emqRegister
func emqRegister(ctx *C.vm_ctx) (failed *C.char) {
	ok := C.int(1)
	defer func() {
		if ok == 0 {
			failed = C.CString("a panic while registering")
		}
	}()
	defer guard(&ok)

	for i, name := range commands.FieldName {
		C.emq_field[i] = constString(name)
	}
	for i, text := range commands.ConstText {
		C.emq_const[i] = constString(text)
	}
	for i, text := range commands.WordText {
		C.emq_word[i] = constString(text)
	}
	for i, word := range commands.AuditParts {
		C.emq_part[i] = C.uint8_t(word)
	}
	for result, status := range commands.Statuses {
		C.emq_status[result] = C.int8_t(status)
	}
	for i, text := range commands.HostTexts {
		C.emq_text[i] = C.CString(text)
		C.emq_text_result[i] = C.uint8_t(commands.HostResults[i])
	}
	for k := commands.Key(0); k < commands.NumKeys; k++ {
		C.emq_suffix[k] = C.CString(k.Suffix())
		C.emq_suffix_len[k] = C.size_t(len(k.Suffix()))
	}
	C.emq_identity_key = constString(fence.Key)
	C.emq_identity = constString(fence.Identity)

	for i, about := range [C.EMQ_NUM_ABOUT][2]string{
		{"identity", fence.Identity}, {"version", commands.Version}, {"build", build}, {"go", runtime.Version()},
	} {
		C.emq_about[i] = [2]*C.char{C.CString(about[0]), C.CString(about[1])}
	}

	category := C.CString(commands.Category)
	defer C.free(unsafe.Pointer(category))
	if failed := C.emq_add_category(ctx, category); failed != nil {
		return failed
	}
	for v := range commands.Table {
		if why := registerVerb(ctx, commands.Verb(v)); why != "" {
			return C.CString(commands.Table[v].Name + ": " + why)
		}
	}
	return nil
}

func registerVerb(ctx *C.vm_ctx, v commands.Verb) string {
	c := &commands.Table[v]
	verb := &C.emq_verbs[v]
	*verb = C.emq_verb{name: C.CString(c.Name), number: C.int(v), num_args: C.int(len(c.Args) + 1), list_len: C.int(len(c.List)), least: C.int(max(c.Arity(), -c.Arity())), jobs: C.uint8_t(c.Plan.Jobs),
		walk: C.uint8_t(c.Plan.Walk), member: C.uint8_t(c.Plan.Member), count_at: C.int(c.At(commands.RoleCount))}
	verb.due, verb.merged, verb.readonly = flag(c.Plan.Due), flag(c.Plan.Merged), flag(c.ReadOnly())
	verb.creates = flag(c.Plan.Jobs == commands.ListedJobs && len(c.Plan.Values) == 0)
	verb.gated, verb.payload_at = flag(c.Plan.Gated), C.int(c.At(commands.RolePayload))
	verb.figures, verb.late_probes = flag(c.Plan.Figures), flag(c.Plan.LateProbes)
	verb.num_probes, verb.probed = C.uint8_t(len(c.Plan.Probes)), flag(len(c.Plan.Probes) > 0 && !c.Plan.LateProbes)
	verb.mode, verb.identity_mode = C.VM_READ|C.VM_WRITE, C.VM_READ|C.VM_OPEN_NOSTATS|C.VM_OPEN_NONOTIFY|C.VM_OPEN_NOEXPIRE
	if c.ReadOnly() { // no expiry, no events, no statistics
		verb.mode = C.VM_READ | C.VM_OPEN_UNSEEN
		verb.identity_mode |= C.VM_OPEN_NOTOUCH
	}
	for i, p := range c.Plan.Probes {
		verb.probes[i] = C.emq_probe{key: C.uint8_t(p.Key), field: C.uint8_t(p.Field), more: C.uint8_t(p.More)}
	}
	for i, name := range c.Fields {
		verb.fields[i] = constString(name)
	}
	var free []unsafe.Pointer
	defer func() {
		for _, p := range free {
			C.free(p)
		}
	}()
	text := func(s string) *C.char {
		p := C.CString(s)
		free = append(free, unsafe.Pointer(p))
		return p
	}
	names := [commands.MaxArgs]*C.char{}
	types := [commands.MaxArgs]C.uint8_t{}
	var option *C.char
	viewed := 0
	if c.List != nil {
		verb.list_at = verb.num_args
	}
	for i, a := range append(slices.Clone(c.Args), c.List...) {
		names[i+1] = text(a.Name)
		if !a.Role.IsOpaque() {
			verb.view[viewed] = C.uint8_t(i + 1)
			viewed++
		}
		if a.Role.IsNumber() {
			types[i+1] = C.VM_ARG_INTEGER
		}
		switch a.Role {
		case commands.RoleKey:
			types[i+1] = C.VM_ARG_KEY
			verb.arg_of[a.Key] = C.uint8_t(i + 1)
			verb.access[i+1] = C.uint64_t(a.Access)
			if a.Key != commands.KeyRow && verb.cut_at == 0 {
				cutBase(verb, i+1, a.Key.Suffix())
			}
		case commands.RoleNumkeys:
			types[i+1] = C.VM_ARG_INTEGER
			verb.numkeys = C.int(c.Numkeys()[0] - '0')
		case commands.RoleBase:
			if a.Access != 0 {
				types[i+1] = C.VM_ARG_KEY
				verb.access[i+1] = C.uint64_t(a.Access)
				cutBase(verb, i+1, "")
			}
			verb.base_at = C.int(i + 1)
		case commands.RoleOption:
			types[i+1] = C.VM_ARG_PURE_TOKEN
			option = text(a.Words[0])
		case commands.RoleID:
			verb.id_at = C.int(i + 1)
		}
	}
	for _, k := range c.Plan.Keys {
		verb.keys |= 1 << k
	}
	readFields(&verb.values, c.Plan.Values)
	for i, f := range c.Plan.Values {
		verb.value_names[i] = C.emq_field[f]
		if f == commands.FieldPayload {
			verb.payload_value = C.uint8_t(i)
		}
	}
	readFields(&verb.late, c.Plan.Late)

	nameCounts(v)

	why := C.emq_register(ctx, C.int(v), text(c.Flags), text(c.Categories), text(c.Summary), text(c.Complexity),
		text(c.Since), text(c.Tips), &names[0], &types[0], option)
	if why == nil {
		return ""
	}
	return C.GoString(why)
}

// cutBase tells C which argument begins with the queue's base, and what follows it there.
func cutBase(verb *C.emq_verb, arg int, suffix string) {
	verb.cut_at, verb.cut, verb.cut_len = C.int(arg), C.CString(suffix), C.size_t(len(suffix))
}

// nameCounts tells C the names of a verb's counters in INFO.
func nameCounts(v commands.Verb) {
	c := &commands.Table[v]
	names := &C.emq_counted[v]
	names.calls = C.CString(c.InfoName("calls"))
	for _, result := range c.Results {
		names.results[result] = C.CString(c.InfoName(commands.Results[result].Name))
	}
	for disposition, name := range c.Dispositions {
		if name != "" {
			names.dispositions[disposition] = C.CString(c.InfoName(name))
		}
	}
}

func flag(is bool) C.uint8_t {
	if is {
		return 1
	}
	return 0
}

func readFields(to *[C.EMQ_MAX_READ]C.uint8_t, fields []commands.Field) {
	for i := range to {
		to[i] = C.EMQ_NO_FIELD
	}
	for i, f := range fields {
		to[i] = C.uint8_t(f)
	}
}

func constString(s string) *C.vm_string {
	p := C.CString(s)
	defer C.free(unsafe.Pointer(p))
	return C.emq_string(p, C.size_t(len(s)))
}
