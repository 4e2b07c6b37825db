// Package doctest holds the documentation to the product: what the pages show is
// run, what they name exists.
//
// The rules, each a test of its own with the rule's name:
//
//  1. links: every relative link leads to a file, and its anchor to a heading;
//     every page can be reached from README.md.
//  2. names: a path, an exported Go name or a test's name in inline code exists.
//  3. go: a block marked "go" compiles. A whole file, or declarations, or
//     statements: these see ctx, and what with="name Type, ..." in the info
//     string declares. What a fragment does not import is imported for it.
//  4. examples: a block marked from="file function" is lines of that function,
//     one behind the other.
//  5. commands: a line of a block marked "sh" or "console" that runs txmgr names
//     a command and flags that the program has.
//  6. scripts: the blocks of a page that are marked "sh test=NAME" with the same
//     NAME run in their order as one bash script, in an empty folder, against a
//     server of their own (TXMGR_ADDR): txmgr server, or with server=dev txmgr
//     dev. What else they need is named by needs, separated by commas: postgres, a
//     private PostgreSQL with the databases bank and shop; mariadb, a private MariaDB
//     with the database shop, instead of the other one; mailer, the example of a
//     service. psql and mariadb find their servers without being told, everybody
//     else finds them in BANK_DSN, SHOP_DSN and MAIL_URL. A block marked "text" behind one of them is
//     what it prints: every line must be printed, in this order; "…" stands for
//     anything.
//  7. reference: the pages of reference name every command, error, code, call and
//     metric, and none that does not exist. The page of commands and the list of
//     decisions are written by this test, with the flag -update.
//
// Every rule but the last is tried on itself: testdata holds pages in which it
// is broken; see internal/ruletest.
//
// # What it does not do
//
// It does not follow links to elsewhere, and it does not judge words.
package doctest
