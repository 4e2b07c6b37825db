// Package xa has the names of XA transactions in MariaDB, their forms in statements, and how XA
// RECOVER lists them.
package xa
