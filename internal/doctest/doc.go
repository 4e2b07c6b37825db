// Package doctest tests the documentation against the product: it runs what the pages show, and
// checks that what they name exists.
//
// Each rule is a test with the rule's name:
//
//  1. links: every relative link leads to a file, and its anchor to a heading;
//     every page can be reached from README.md.
//  2. names: a path, an exported Go name or a test's name in inline code exists.
//  3. go: a block marked "go" compiles. A block is a whole file, or declarations, or statements:
//     statements have ctx, and the variables of with="name Type, ..." in the info string. Missing
//     imports of a fragment are added.
//  4. examples: a block marked from="file function" consists of lines of that function, in their
//     order.
//  5. commands: a line of a shell block, or of inline code, that begins with txmgr is
//     a command and flags that the program has.
//  6. scripts: the blocks of a page that are marked "sh test=NAME" with the same NAME run in their
//     order as one bash script, in an empty directory, against a server of their own (TXMGR_ADDR):
//     txmgr server, or with server=dev txmgr dev. Other dependencies are named by needs, separated
//     by commas: postgres, a private PostgreSQL with the databases bank and shop; mariadb, a
//     private MariaDB with the database shop, instead of the other one; mailer, the example of a
//     service. psql and mariadb find their servers by default, other programs by BANK_DSN, SHOP_DSN
//     and MAIL_URL. A block marked "text" that follows one of them is its output: every line must
//     be printed, in this order; "…" stands for any text.
//  7. reference: the pages of reference name every command, error, code, call and metric, and none
//     that does not exist. This test writes the page of commands and the list of decisions if it is
//     run with the flag -update.
//
// Every rule but the last is tested itself: testdata contains pages that break it; see
// internal/ruletest.
//
// # What it does not do
//
// It does not follow external links, and it does not check the prose.
package doctest
