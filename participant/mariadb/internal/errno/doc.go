// Package errno names the errors of MariaDB that the driver handles, and tells what an error proves
// about the statement that was sent.
package errno
