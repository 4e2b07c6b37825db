package adaptivebench

import "context"

// App is an application of the dissertation: what a worker does for a request.
type App struct {
	// Name identifies it, Title is its name in the dissertation.
	Name, Title string
	// About describes it in a few words.
	About string
	// Database means that it needs a private PostgreSQL.
	Database bool

	open func(ctx context.Context, db *database) (service, error)
}

// Apps are the four applications.
func Apps() []App {
	return []App{
		{Name: "prime1m", Title: "Prime1m", About: "is one of 21 numbers from 1,000,000 prime? by division", open: openPrime(1_000_000)},
		{Name: "prime10m", Title: "Prime10m", About: "the same from 10,000,000", open: openPrime(10_000_000)},
		{Name: "dbread", Title: "DbRead", About: "one of 50,000 rows of a PostgreSQL table", Database: true, open: openRead},
		{Name: "dbwrite", Title: "DbWrite", About: "the time into a PostgreSQL table, on disk", Database: true, open: openWrite},
	}
}

func appOf(name string) (App, bool) {
	for _, a := range Apps() {
		if a.Name == name {
			return a, true
		}
	}
	return App{}, false
}

// service is an application that is ready for requests.
type service struct {
	// answer does the work of one request; for many goroutines.
	answer func(ctx context.Context) (string, error)
	// check compares what was done with the number of answered requests. It may be nil.
	check func(ctx context.Context, answered uint64) error
}
