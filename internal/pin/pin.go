// Package pin holds a dependency until its users are there.
package pin

import _ "github.com/go-sql-driver/mysql"
