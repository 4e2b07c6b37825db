module example.org/planted

go 1.26.0
