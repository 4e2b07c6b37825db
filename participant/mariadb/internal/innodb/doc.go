// Package innodb reads the transactions that InnoDB has open (INNODB_TRX).
package innodb
