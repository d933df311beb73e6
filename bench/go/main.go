// A typical proxy with Go's standard library: reads "model" from the body, then uses httputil.ReverseProxy.
//
//	goproxy [-pool] LISTEN MODEL=URL...
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

const bufferSize = 32 << 10

// buffers implements httputil.BufferPool.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if kept, ok := b.pool.Get().(*[]byte); ok {
		return *kept
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }

func proxyTo(address string, pool httputil.BufferPool) *httputil.ReverseProxy {
	target, err := url.Parse(address)
	if err != nil {
		log.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	proxy.BufferPool = pool
	proxy.ErrorLog = log.New(io.Discard, "", 0) // clients that disconnect are part of the measurement
	return proxy
}

type router map[string]*httputil.ReverseProxy

func (models router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var request struct{ Model string }
	if err := json.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	proxy, known := models[request.Model]
	if !known {
		http.Error(w, "unknown model", http.StatusNotFound)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	proxy.ServeHTTP(w, r)
}

func main() {
	pooled := flag.Bool("pool", false, "give ReverseProxy a pool of buffers")
	flag.Parse()
	var pool httputil.BufferPool
	if *pooled {
		pool = &buffers{}
	}
	models := router{}
	for _, entry := range flag.Args()[1:] {
		name, address, _ := strings.Cut(entry, "=")
		models[name] = proxyTo(address, pool)
	}
	log.Fatal(http.ListenAndServe(flag.Arg(0), models))
}
