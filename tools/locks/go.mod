module github.com/txmgr/txmgr/tools/locks

go 1.26.0

require github.com/sasha-s/go-deadlock v0.3.9

require github.com/petermattis/goid v0.0.0-20250813065127-a731cc31b4fe // indirect
