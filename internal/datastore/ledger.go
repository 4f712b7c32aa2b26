package datastore

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// key identifies a template or a claim.
type key = types.NamespacedName

// ledger holds the indexes in use. The zero value is ready to use.
type ledger struct {
	mu        sync.Mutex
	templates map[key]*hostdata.Indexes

	// reserved holds the indexes of creates that the cache has not shown yet, by claim. Until then the outcome of the
	// create is unknown.
	reserved map[key]reservation
}

type reservation struct {
	template key
	index    int32
}

// reserve gives the object the index that is reserved for its claim, or reserves the lowest free one.
func (l *ledger) reserve(data *infrav1.Metal3Data) {
	l.mu.Lock()
	defer l.mu.Unlock()
	template, claim := templateOf(data), claimOf(data)
	held, isHeld := l.reserved[claim]
	if !isHeld {
		held = reservation{template: template, index: l.indexes(template).Lowest()}
		if l.reserved == nil {
			l.reserved = map[key]reservation{}
		}
		l.reserved[claim] = held
		l.indexes(template).Take(held.index)
	}
	data.Name, data.Spec.Index = hostdata.Name(template.Name, held.index), &held.index
}

// lost drops the reservation of a claim if another claim has its index. The index stays in use.
func (l *ledger) lost(claim key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reserved, claim)
}

// cancel drops the reservation of a claim and the use of its index. If the API server did create the object, its
// event or the next create with this index shows it.
func (l *ledger) cancel(claim key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held, isHeld := l.reserved[claim]; isHeld {
		delete(l.reserved, claim)
		l.indexes(held.template).Free(held.index)
	}
}

// seen records an object that the cache shows.
func (l *ledger) seen(data *infrav1.Metal3Data) {
	if data.Spec.Template == nil || data.Spec.Index == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.indexes(templateOf(data)).Take(*data.Spec.Index)
	if data.Spec.Claim == nil {
		return
	}
	if l.reserved[claimOf(data)] == (reservation{templateOf(data), *data.Spec.Index}) {
		delete(l.reserved, claimOf(data))
	}
}

// gone records the deletion of an object.
func (l *ledger) gone(data *infrav1.Metal3Data) {
	if data.Spec.Template == nil || data.Spec.Index == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.indexes(templateOf(data)).Free(*data.Spec.Index)
}

func (l *ledger) indexes(template key) *hostdata.Indexes {
	found := l.templates[template]
	if found == nil {
		found = &hostdata.Indexes{}
		if l.templates == nil {
			l.templates = map[key]*hostdata.Indexes{}
		}
		l.templates[template] = found
	}
	return found
}

func templateOf(data *infrav1.Metal3Data) key {
	return key{Namespace: data.Namespace, Name: data.Spec.Template.Name}
}

func claimOf(data *infrav1.Metal3Data) key {
	return key{Namespace: data.Namespace, Name: data.Spec.Claim.Name}
}
