package pairs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// Func makes one pair.
type Func = func(ctx context.Context, caller int) error

// etcdConnections is the number of connections over which the callers are spread; one is slower.
const etcdConnections = 8

type etcdClients []*clientv3.Client

func (cs etcdClients) Close() error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Etcd puts and deletes keys of value over several connections to address.
func Etcd(ctx context.Context, address, value string) (Func, io.Closer, error) {
	var cs etcdClients
	for range etcdConnections {
		c, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{address}, DialTimeout: 10 * time.Second})
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("etcd client: %w", err), cs.Close())
		}
		cs = append(cs, c)
	}
	var seq atomic.Uint64
	return func(ctx context.Context, caller int) error {
		c := cs[caller%etcdConnections]
		key := fmt.Sprintf("transfer/%020d", seq.Add(1))
		if _, err := c.Put(ctx, key, value); err != nil {
			return fmt.Errorf("etcd put: %w", err)
		}
		if _, err := c.Delete(ctx, key); err != nil {
			return fmt.Errorf("etcd delete: %w", err)
		}
		return nil
	}, cs, nil
}

// SDK begins and commits with the client library; value is a label.
func SDK(cfg client.Config, value string) (Func, io.Closer, error) {
	c, err := client.Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	labels := map[string]string{"value": value}
	return func(ctx context.Context, _ int) error {
		b, err := c.Begin(ctx, txn.Options{Name: "transfer", Labels: labels})
		if err != nil {
			return err
		}
		_, err = c.Commit(ctx, b.ID, txn.CommitRequest{})
		return err
	}, c, nil
}

// jsonClient is the client of a program without an SDK.
type jsonClient struct {
	http *http.Client
	base string
}

func (c jsonClient) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// JSON does the same by plain requests over HTTP/1.1, possible in any language; it keeps a
// connection for each caller.
func JSON(address, value string, callers int) (Func, io.Closer) {
	c := jsonClient{
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}},
		base: address + "/txmgr.v1.TransactionService/",
	}
	begin := fmt.Appendf(nil, `{"name":"transfer","labels":{"value":%q}}`, value)
	return func(ctx context.Context, _ int) error {
		var b struct {
			ID string `json:"id"`
		}
		if err := c.post(ctx, "Begin", begin, &b); err != nil {
			return err
		}
		var o struct {
			State string `json:"state"`
		}
		if err := c.post(ctx, "Commit", fmt.Appendf(nil, `{"id":%q}`, b.ID), &o); err != nil {
			return err
		}
		if o.State != "committed" {
			return fmt.Errorf("commit answered state %q", o.State)
		}
		return nil
	}, c
}

func (c jsonClient) post(ctx context.Context, method string, body []byte, answer any) (err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", method, res.Status, b)
	}
	return json.Unmarshal(b, answer)
}
