package adaptivebench

import "context"

// App is an application of the source: what a worker does for a request.
type App struct {
	// Name is what it is called by, Title how the source writes it.
	Name, Title string
	// About says in a few words what it does.
	About string
	// Database says that it needs a private PostgreSQL.
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
	// check compares what was done with how many requests were answered. It may be nil.
	check func(ctx context.Context, answered uint64) error
}
