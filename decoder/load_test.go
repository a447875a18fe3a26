package decoder

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/cluster"
	"github.com/slotferry/slotferry/internal/poll"
)

// loadAhead bounds how many transactions the writers do beyond those that are
// waited for: on a slow machine they would outrun what the test decodes.
const loadAhead = 150

// load is a number of writers that overlap each other all the time.
type load struct {
	done    atomic.Int64 // transactions that ended
	allowed atomic.Int64 // transactions that may begin
	ended   atomic.Bool  // every writer ends its transaction, and then itself
	wg      sync.WaitGroup
}

func startLoad(t *testing.T, server *cluster.Server, seed uint64) *load {
	t.Helper()
	l := &load{}
	l.allowed.Store(loadAhead)
	for d, db := range digestDatabases {
		for n := range digestWriters {
			conn, err := server.Connect(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, uint64(1+d*digestWriters+n)))
			l.wg.Go(func() { l.write(conn, n, rng) })
		}
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.ended.Store(true)
	l.wg.Wait()
}

func (l *load) write(conn *pgx.Conn, n int, rng *rand.Rand) {
	ctx := context.Background()
	defer conn.Close(ctx)
	for columns := 0; !l.ended.Load(); {
		if l.done.Load() >= l.allowed.Load() {
			if _, err := conn.Exec(ctx, "SELECT pg_sleep(0.01)"); err != nil {
				return
			}
			continue
		}
		statements := []string{"BEGIN"}
		for range 1 + rng.IntN(4) {
			statements = append(statements,
				fmt.Sprintf("INSERT INTO w%d (v) SELECT repeat('x', %d) FROM generate_series(1, %d)", n, rng.IntN(40), 1+rng.IntN(5)),
				fmt.Sprintf("SELECT pg_sleep(%f)", rng.Float64()*0.02))
			switch rng.IntN(8) {
			case 0:
				columns++
				statements = append(statements, fmt.Sprintf("ALTER TABLE w%d ADD COLUMN c%d int DEFAULT %d", n, columns, columns))
			case 1:
				statements = append(statements, fmt.Sprintf("ALTER TABLE w%d DROP COLUMN IF EXISTS c%d", n, rng.IntN(columns+1)))
			case 2:
				statements = append(statements, fmt.Sprintf("UPDATE w%d SET v = 'u' WHERE i %% 7 = %d", n, rng.IntN(7)))
			case 3:
				statements = append(statements, "SAVEPOINT a",
					fmt.Sprintf("DELETE FROM w%d WHERE i %% 11 = %d", n, rng.IntN(11)), "ROLLBACK TO a")
			case 4:
				statements = append(statements,
					fmt.Sprintf("CREATE TABLE tmp_%d (i int)", n), fmt.Sprintf("INSERT INTO tmp_%d VALUES (1)", n),
					fmt.Sprintf("DROP TABLE tmp_%d", n))
			}
		}
		end := "COMMIT"
		if rng.IntN(10) == 0 {
			end = "ROLLBACK"
		}
		for _, s := range append(statements, end) {
			if _, err := conn.Exec(ctx, s); err != nil {
				_, _ = conn.Exec(ctx, "ROLLBACK") // a failed transaction is as good as one rolled back
				break
			}
		}
		l.done.Add(1)
	}
}

// waitTransactions waits until that many more have been done.
func (l *load) waitTransactions(t *testing.T, n int) {
	t.Helper()
	goal := l.done.Load() + int64(n)
	l.allowed.Store(goal + loadAhead)
	poll.Require(t, 60*time.Second, "transactions", func(context.Context) (bool, string) {
		return l.done.Load() >= goal, fmt.Sprint(l.done.Load())
	})
}
