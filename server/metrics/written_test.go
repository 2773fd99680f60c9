package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/server/stats"
)

// What is registered and never counted shows 0 for ever, and an alert on it never fires. So the
// source is asked: each field of stats.Server that holds numbers is written somewhere in the product.

// recorders are the fields of stats.Server that somebody has to write.
func recorders() []string {
	kinds := []reflect.Type{
		reflect.TypeFor[stats.Counter](), reflect.TypeFor[*stats.Histogram](), reflect.TypeFor[*stats.CounterSet](),
		reflect.TypeFor[stats.Sizes](),
	}
	var names []string
	for f := range fieldsOf(reflect.TypeFor[stats.Server]()) {
		if f.IsExported() && slices.Contains(kinds, f.Type) {
			names = append(names, f.Name)
		}
	}
	return names
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// writtenFields are the names of fields that the program writes: x.Field.Add or x.Field.Record, called
// or handed on, or the field itself handed on, as in {key: x.stats.Field} and &x.stats.Field.
func writtenFields(t *testing.T, source func(visit func(file *ast.File))) map[string]bool {
	t.Helper()
	written := map[string]bool{}
	source(func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if field, ok := n.X.(*ast.SelectorExpr); ok && (n.Sel.Name == "Add" || n.Sel.Name == "Record") {
					written[field.Sel.Name] = true
				}
			case *ast.KeyValueExpr:
				handedOn(n.Value, written)
			case *ast.UnaryExpr:
				handedOn(n.X, written)
			}
			return true
		})
	})
	return written
}

// handedOn notes a field of the stats whose value or address somebody gets.
func handedOn(e ast.Expr, written map[string]bool) {
	if field, ok := e.(*ast.SelectorExpr); ok {
		if of, ok := field.X.(*ast.SelectorExpr); ok && of.Sel.Name == "stats" {
			written[field.Sel.Name] = true
		}
	}
}

// product visits the files of the server but for package stats and tests.
func product(t *testing.T) func(visit func(file *ast.File)) {
	return func(visit func(file *ast.File)) {
		files := 0
		for _, root := range []string{"..", "../../internal", "../../cmd"} {
			require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && (d.Name() == "testdata" || path == filepath.Join("..", "stats")):
					return fs.SkipDir
				case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
					return nil
				}
				file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				files++
				visit(file)
				return nil
			}))
		}
		require.Greater(t, files, 100)
	}
}

// registered is the field behind each metric that is listed with one: {"name", "help", …, &s.Field}.
func registered(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../stats/register.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	fields := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		var all []ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			all = n.Elts
		case *ast.CallExpr:
			all = n.Args
		}
		if len(all) < 3 {
			return true
		}
		name, isText := all[0].(*ast.BasicLit)
		last := all[len(all)-1]
		if address, ok := last.(*ast.UnaryExpr); ok {
			last = address.X
		}
		field, isField := last.(*ast.SelectorExpr)
		if isText && isField && name.Kind == token.STRING {
			text, err := strconv.Unquote(name.Value)
			require.NoError(t, err)
			fields[text] = field.Sel.Name
		}
		return true
	})
	return fields
}

func TestWhatIsRegisteredIsCounted(t *testing.T) {
	written := writtenFields(t, product(t))
	all := recorders()
	require.Greater(t, len(all), 40)
	for _, name := range all {
		require.True(t, written[name], "nobody writes stats.Server.%s: count it where it happens, or take it out", name)
	}
	for metric, field := range registered(t) {
		require.Contains(t, all, field, "%s", metric)
	}
}

// checkWritten says which of the metrics that are asked for nobody counts.
func checkWritten(t *testing.T, names []string) {
	t.Helper()
	fields, written := registered(t), writtenFields(t, product(t))
	require.Equal(t, "Looking", fields["looking_count"])
	require.Equal(t, "FsyncTime", fields["fsynctime"])
	require.Equal(t, "QuotaExceeded", fields["quota_exceeded_error_per_namespace"])
	for _, name := range names {
		bare := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		for _, n := range []string{name, bare} {
			if field, ok := fields[n]; ok {
				require.True(t, written[field], "%s never changes: nobody writes stats.Server.%s", name, field)
			}
		}
	}
}

// The checks above must see what is wrong.
func TestAFieldThatIsOnlyReadIsNoticed(t *testing.T) {
	const source = `package p
func f() {
	s.stats.Commits.Add(1)
	st.FsyncTime.Record(2)
	c.stats.FsyncSlow.Value(0)
	limited := &h.stats.RestoresRateLimited
	run(o{Lost: s.stats.AuditLost.Add})
	n.o.Meters.Looking()
	_ = m{Looking: func() {}, 1: s.stats.WatchCreated, 2: o.WatchDeleted}
}`
	written := writtenFields(t, func(visit func(*ast.File)) {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		require.NoError(t, err)
		visit(file)
	})
	require.Equal(t, map[string]bool{
		"AuditLost": true, "Commits": true, "FsyncTime": true, "RestoresRateLimited": true, "WatchCreated": true,
	}, written)
}
