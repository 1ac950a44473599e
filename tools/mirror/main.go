// mirror writes module/mirror.h: the constants of package commands and the types that cross between C and Go, as C sees
// them. go generate runs it; make lint checks that the header is up to date.
//
// An integer constant CamelCase becomes EMQ_CAMEL_CASE, prefixed by the name of its type unless it begins with that or its
// first word: KeyRow is EMQ_KEY_ROW, Dropped is EMQ_DISPOSITION_DROPPED. A struct becomes emq_name with the same fields; its
// size and the offset of each field are asserted, because the layout must be that of Go. A string becomes emq_bytes, a slice
// a struct of pointer, length and capacity.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The types that cross; the types that they consist of follow from them.
var roots = []string{"Call", "Outcome", "Probe"}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: mirror FILE, in the folder of package commands")
	}
	g := generator{pkg: load("."), sizes: types.SizesFor("gc", "amd64"), done: map[string]bool{}}
	g.printf("/* Generated from package commands by tools/mirror; do not edit. */\n#ifndef EMQ_MIRROR_H\n#define EMQ_MIRROR_H\n\n")
	g.printf("#include <stddef.h>\n#include <stdint.h>\n\n")
	g.constants()
	g.printf("/* The module's own version, as a decimal MMmmpp. */\n#define EMQ_VERSION %d\n\n", g.version())
	g.printf("/* One X(verb) for each verb, in their order. */\n#define EMQ_EACH_VERB(X)")
	for verb := range g.integer("NumVerbs") {
		g.printf(" X(%d)", verb)
	}
	g.printf("\n\n")
	g.printf("/* A Go string that views bytes of the server's. */\ntypedef struct {\n    const char *p;\n    intptr_t n;\n} emq_bytes;\n")
	for _, name := range roots {
		g.structure(g.pkg.Scope().Lookup(name).Type().(*types.Named))
	}
	g.printf("\n#endif\n")
	if err := os.WriteFile(os.Args[1], g.out.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// load type-checks the package in a folder.
func load(dir string) *types.Package {
	fset := token.NewFileSet()
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, e.Name(), nil, 0)
		if err != nil {
			log.Fatal(err)
		}
		files = append(files, file)
	}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := config.Check("commands", fset, files, nil)
	if err != nil {
		log.Fatal(err)
	}
	return pkg
}

type generator struct {
	pkg   *types.Package
	sizes types.Sizes
	out   bytes.Buffer
	done  map[string]bool
}

func (g *generator) printf(format string, args ...any) { fmt.Fprintf(&g.out, format, args...) }

// constants writes one enum for the exported integer constants of each type, in the order of their values.
func (g *generator) constants() {
	byType := map[string][]*types.Const{}
	for _, name := range g.pkg.Scope().Names() {
		c, ok := g.pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !c.Exported() || c.Val().Kind() != constant.Int {
			continue
		}
		typ := ""
		if named, ok := c.Type().(*types.Named); ok {
			typ = named.Obj().Name()
		}
		byType[typ] = append(byType[typ], c)
	}
	for _, typ := range slices.Sorted(maps.Keys(byType)) {
		constants := byType[typ]
		slices.SortStableFunc(constants, func(a, b *types.Const) int {
			if constant.Compare(a.Val(), token.LSS, b.Val()) {
				return -1
			}
			return 1
		})
		var wide []string
		g.printf("enum {")
		for _, c := range constants {
			name, word := c.Name(), strings.SplitN(snake(typ), "_", 2)[0]
			if !strings.Contains(snake(name), word) {
				name = typ + name
			}
			name = "EMQ_" + strings.ToUpper(snake(name))
			if n, exact := constant.Int64Val(c.Val()); !exact || n != int64(int32(n)) {
				if n == -1<<63 {
					wide = append(wide, "#define "+name+" INT64_MIN")
				}
				continue
			}
			g.printf("\n    %s = %s,", name, c.Val())
		}
		g.printf("\n};\n%s\n", strings.Join(append(wide, ""), "\n"))
	}
}

// integer is the value of an integer constant.
func (g *generator) integer(name string) int {
	n, _ := constant.Int64Val(g.pkg.Scope().Lookup(name).(*types.Const).Val())
	return int(n)
}

// version is the constant Version as a number.
func (g *generator) version() (n int) {
	for part := range strings.SplitSeq(constant.StringVal(g.pkg.Scope().Lookup("Version").(*types.Const).Val()), ".") {
		digits, err := strconv.Atoi(part)
		if err != nil {
			log.Fatal(err)
		}
		n = n*100 + digits
	}
	return n
}

// structure writes a struct after those that it consists of.
func (g *generator) structure(named *types.Named) {
	name := named.Obj().Name()
	s, ok := named.Underlying().(*types.Struct)
	if !ok || g.done[name] {
		return
	}
	g.done[name] = true
	var fields []*types.Var
	for i := range s.NumFields() {
		fields = append(fields, s.Field(i))
	}
	var body bytes.Buffer
	for _, f := range fields {
		before, after := g.ctype(f.Type())
		fmt.Fprintf(&body, "    %s%s%s;\n", before, snake(f.Name()), after)
	}
	cname := "emq_" + snake(name)
	g.printf("\ntypedef struct {\n%s} %s;\n", body.String(), cname)
	g.printf("_Static_assert(sizeof(%s) == %d, \"%s\");\n", cname, g.sizes.Sizeof(s), name)
	for i, offset := range g.sizes.Offsetsof(fields) {
		g.printf("_Static_assert(offsetof(%s, %s) == %d, \"%s.%s\");\n", cname, snake(fields[i].Name()), offset, name, fields[i].Name())
	}
}

// ctype is how C declares a type: the text before the name, and the text after it.
func (g *generator) ctype(t types.Type) (before, after string) {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		names := map[types.BasicKind]string{
			types.Bool: "uint8_t ", types.Uint8: "uint8_t ", types.Int32: "int32_t ", types.Uint32: "uint32_t ",
			types.Int64: "int64_t ", types.Uint64: "uint64_t ", types.Float64: "double ", types.String: "emq_bytes ",
		}
		if name, ok := names[u.Kind()]; ok {
			return name, ""
		}
	case *types.Array:
		before, after = g.ctype(u.Elem())
		return before, fmt.Sprintf("[%d]%s", u.Len(), after)
	case *types.Slice:
		before, _ = g.ctype(u.Elem())
		return "struct {\n        " + before + "*at;\n        intptr_t n, room;\n    } ", ""
	case *types.Pointer:
		before, _ = g.ctype(u.Elem())
		return "const " + before + "*", ""
	case *types.Struct:
		g.structure(t.(*types.Named))
		return "emq_" + snake(t.(*types.Named).Obj().Name()) + " ", ""
	}
	log.Fatalf("no C type for %s", t)
	return "", ""
}

// snake spells a CamelCase name with underscores.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
