package mariadb

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"
)

// managedRows are rows of a managed connection. For an optional interface that the driver's rows
// do not implement, they return the defaults of [database/sql].
type managedRows struct {
	driver.Rows
	branch *branch
	ctx    context.Context // of the query
	failed error           // the error that ended reading
}

var (
	_ driver.RowsNextResultSet              = (*managedRows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*managedRows)(nil)
	_ driver.RowsColumnTypeLength           = (*managedRows)(nil)
	_ driver.RowsColumnTypeNullable         = (*managedRows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*managedRows)(nil)
	_ driver.RowsColumnTypeScanType         = (*managedRows)(nil)
)

// rows returns managed rows, or the checked error of a query.
func (b *branch) rows(ctx context.Context, rows driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, b.checkError(ctx, err)
	}
	return &managedRows{Rows: rows, branch: b, ctx: ctx}, nil
}

// Next implements [driver.Rows].
func (r *managedRows) Next(dest []driver.Value) error {
	r.failed = r.branch.conn.raw(func(any) error { return r.Rows.Next(dest) })
	return managedError(r.failed)
}

// Close implements [driver.Rows].
func (r *managedRows) Close() error {
	err := r.branch.conn.raw(func(any) error { return r.Rows.Close() })
	for _, failed := range []error{r.failed, err} { // err is from the rows that were not read
		_ = r.branch.checkError(r.ctx, failed) // it may query the server, so only after the rows are closed
	}
	return err
}

// HasNextResultSet implements [driver.RowsNextResultSet].
func (r *managedRows) HasNextResultSet() (has bool) {
	inner, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return false
	}
	err := r.branch.conn.raw(func(any) error { has = inner.HasNextResultSet(); return nil })
	return err == nil && has
}

// NextResultSet implements [driver.RowsNextResultSet].
func (r *managedRows) NextResultSet() error {
	inner, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	r.failed = r.branch.conn.raw(func(any) error { return inner.NextResultSet() })
	return managedError(r.failed)
}

// ColumnTypeDatabaseTypeName implements [driver.RowsColumnTypeDatabaseTypeName].
func (r *managedRows) ColumnTypeDatabaseTypeName(i int) string {
	if inner, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return inner.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// ColumnTypeLength implements [driver.RowsColumnTypeLength].
func (r *managedRows) ColumnTypeLength(i int) (int64, bool) {
	if inner, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return inner.ColumnTypeLength(i)
	}
	return 0, false
}

// ColumnTypeNullable implements [driver.RowsColumnTypeNullable].
func (r *managedRows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if inner, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return inner.ColumnTypeNullable(i)
	}
	return false, false
}

// ColumnTypePrecisionScale implements [driver.RowsColumnTypePrecisionScale].
func (r *managedRows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if inner, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return inner.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// ColumnTypeScanType implements [driver.RowsColumnTypeScanType].
func (r *managedRows) ColumnTypeScanType(i int) reflect.Type {
	if inner, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return inner.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}
