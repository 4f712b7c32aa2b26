package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/configdrive"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/precondition"
)

const (
	// ManagementName is the name of the management machine, its node and its cluster.
	ManagementName = "management"

	// NodeImage is the name of the image of nodes.
	NodeImage = bmc.NodeImage

	// managementNumber is the number of the management machine in the address plan.
	managementNumber = 10

	// bootLimit is the time limit from power-on until the node is ready.
	bootLimit = 5 * time.Minute
)

// Lab is a running lab. It is safe for concurrent use.
type Lab struct {
	options  Options
	checkout string
	// folder has the state of the lab.
	folder string

	artefacts image.Artefacts
	// earlier is empty unless the options ask for an earlier release of Kubernetes.
	earlier image.Earlier
	// store is the image store of this lab: the shared one with the images of the checkout.
	store string
	// ironicImage is the name of the container image of Ironic, and ironicManifest the manifest of Ironic.
	ironicImage, ironicManifest string

	clusterctlConfig string
	control          *control
	claim            *machine.Claim
	network          *network.Switch
	bmc              *bmc.Server
	ramdisk          *http.Server
	management       *Cluster

	// mutex guards the fields below.
	mutex    sync.Mutex
	ironic   ironicapi.Endpoint
	machines map[string]*machine.Machine
	// clusters are the connected clusters by name.
	clusters map[string]*Cluster
	// hosts is the number of hosts.
	hosts int
}

// Start creates a lab with a management cluster and blocks until all its Deployments and hosts are available. That
// takes about two minutes, and the first time on a machine about an hour, to build all programs.
//
// After an error the artefacts are in the folder of the options and the lab is removed. Otherwise Stop removes the lab.
func Start(ctx context.Context, options Options) (*Lab, error) {
	checkout, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	options, err = options.complete(checkout)
	if err != nil {
		return nil, err
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return nil, err
	}
	if err := precondition.Check(cache, options.Machines); err != nil {
		return nil, fmt.Errorf("this machine cannot run a lab: %w", err)
	}
	folder, err := stateFolder(options.Name)
	if err != nil {
		return nil, err
	}
	lab := &Lab{
		options: options, checkout: checkout, folder: folder,
		machines: map[string]*machine.Machine{}, clusters: map[string]*Cluster{},
	}
	if err := lab.start(ctx); err != nil {
		err = fmt.Errorf("starting lab %s: %w", options.Name, err)
		// The context may have ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return nil, errors.Join(err, lab.explain(ctx), lab.Stop(ctx))
	}
	return lab, nil
}

// start runs the steps. Stop can undo each of them at any time.
func (l *Lab) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		l.prepare,
		l.acquire,
		l.fillStore,
		l.writeRepository,
		l.writeIronic,
		l.writeTemplates,
		l.connectMachines,
		l.bootManagement,
		l.installManagement,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return l.AddHosts(ctx, l.options.Hosts)
}

// explain collects artefacts, if a part of the lab exists.
func (l *Lab) explain(ctx context.Context) error {
	if len(l.Machines()) == 0 {
		return nil
	}
	if err := l.CollectArtefacts(ctx, l.options.Artefacts); err != nil {
		return fmt.Errorf("collecting artefacts in %s: %w", l.options.Artefacts, err)
	}
	l.options.Progress("the artefacts are in %s", l.options.Artefacts)
	return nil
}

// acquire claims the name of the lab and removes the files of an earlier one.
func (l *Lab) acquire(ctx context.Context) error {
	if err := waitUnclaimed(ctx, l.options.Name); err != nil {
		return err
	}
	if err := os.RemoveAll(l.folder); err != nil {
		return fmt.Errorf("removing an earlier lab: %w", err)
	}
	if err := os.MkdirAll(l.folder, folderMode); err != nil {
		return err
	}
	program := filepath.Join(l.folder, "stage")
	if err := errors.Join(
		machine.Build(ctx, l.checkout, program), machine.BuildRamdisk(ctx, l.checkout, l.ramdiskFolder()),
	); err != nil {
		return err
	}
	var err error
	if l.claim, err = machine.Acquire(ctx, l.options.Name, l.folder, program); err != nil {
		return err
	}
	l.control, err = newControl(ctx, l.folder)
	return err
}

// ramdiskFolder is the root file system of the ramdisk.
func (l *Lab) ramdiskFolder() string { return filepath.Join(l.folder, "ramdisk") }

// fillStore creates the initial image store of all machines of the lab.
func (l *Lab) fillStore(ctx context.Context) error {
	archives, err := l.packPrograms(ctx)
	if err != nil {
		return err
	}
	l.store = filepath.Join(l.folder, "store")
	return l.artefacts.Derive(ctx, l.store, append(archives, l.earlier.Archives...)...)
}

// connectMachines creates the switch and its servers.
func (l *Lab) connectMachines(ctx context.Context) error {
	var err error
	if l.network, err = network.Create(l.options.Name); err != nil {
		return err
	}
	if l.bmc, err = bmc.Start(context.WithoutCancel(ctx), l.network); err != nil {
		return err
	}
	if l.ramdisk, err = serveRamdisk(context.WithoutCancel(ctx), l.network); err != nil {
		return err
	}
	if l.options.EarlierKubernetes {
		if err := errors.Join(
			l.bmc.AddImage(VersionedNodeImage(binaries.KubernetesVersion), l.NodeRoot()),
			l.bmc.AddImage(VersionedNodeImage(binaries.EarlierKubernetesVersion), l.earlier.RootKey),
		); err != nil {
			return err
		}
	}
	return l.bmc.AddImage(NodeImage, l.NodeRoot())
}

// addMachine adds a machine that is powered off, with an empty disk.
func (l *Lab) addMachine(name string, number byte) error {
	made, err := machine.New(machine.Spec{
		Claim: l.claim, Switch: l.network, Name: name, Number: number,
		Dir: filepath.Join(l.folder, "machines", name), Root: l.root, Store: l.store, LinkStore: image.LinkStore,
		Ramdisk: l.ramdiskFolder(),
	})
	if err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.machines[name] = made
	return nil
}

// root returns the root file system of an image of an operating system.
func (l *Lab) root(key string) (string, error) {
	switch {
	case key == l.artefacts.RootKey:
		return l.artefacts.Root, nil
	case key == l.earlier.RootKey && l.options.EarlierKubernetes:
		return l.earlier.Root, nil
	}
	return "", fmt.Errorf("unknown root file system %q: this lab has %q and %q",
		key, l.artefacts.RootKey, l.earlier.RootKey)
}

// bootManagement boots the management machine, which becomes a cluster.
func (l *Lab) bootManagement(ctx context.Context) error {
	if err := l.addMachine(ManagementName, managementNumber); err != nil {
		return err
	}
	booted := l.Machine(ManagementName)
	drive, err := configdrive.Management(ManagementName, managementNumber)
	if err != nil {
		return err
	}
	if err := errors.Join(booted.WriteDisk(ctx, l.artefacts.RootKey), booted.InsertMedia(drive)); err != nil {
		return err
	}
	l.options.Progress("turning on the management machine")
	if err := booted.PowerOn(ctx); err != nil {
		return err
	}
	var kubeconfig []byte
	if err := l.options.Progress.WaitFor(ctx, "kubeadm has written a kubeconfig", bootLimit,
		func(ctx context.Context) error {
			kubeconfig, err = booted.Run(ctx, "cat", "/etc/kubernetes/admin.conf")
			return err
		}); err != nil {
		return err
	}
	if l.management, err = l.connect(ctx, ManagementName, kubeconfig); err != nil {
		return err
	}
	return l.WaitForNodes(ctx, l.management, 1, bootLimit)
}

// Management returns the management cluster.
func (l *Lab) Management() *Cluster { return l.management }

// Ironic returns the endpoint of Ironic inside of the lab.
func (l *Lab) Ironic() ironicapi.Endpoint {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.ironic
}

// UseIronic replaces the endpoint after its credentials have changed. It does not change BMO.
func (l *Lab) UseIronic(settings ironicapi.Endpoint) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ironic = settings
}

// Network returns the switch of the lab.
func (l *Lab) Network() *network.Switch { return l.network }

// BMC returns the server of the BMCs of all machines.
func (l *Lab) BMC() *bmc.Server { return l.bmc }

// Machine returns a machine by its name, or nil.
func (l *Lab) Machine(name string) *machine.Machine {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.machines[name]
}

// VersionedNodeImage is the name of the image that makes a node of a release of Kubernetes.
func VersionedNodeImage(kubernetesVersion string) string { return NodeImage + "-" + kubernetesVersion }

// NodeRoot returns the key of the root file system of NodeImage.
func (l *Lab) NodeRoot() string { return l.artefacts.RootKey }

// ArtefactsFolder returns the folder of the artefacts of Start, which CollectArtefacts may use.
func (l *Lab) ArtefactsFolder() string { return l.options.Artefacts }

// StopRequested is closed when another process requests the end of the lab with Down.
func (l *Lab) StopRequested() <-chan struct{} { return l.control.requested }

// Workload connects to a cluster of the management cluster in the namespace of the lab.
func (l *Lab) Workload(ctx context.Context, name string) (*Cluster, error) {
	return l.WorkloadOf(ctx, l.management, client.ObjectKey{Namespace: Namespace, Name: name})
}

// WorkloadOf connects to a cluster with the kubeconfig of Cluster API in the cluster that manages it. It connects to a
// name once, so names must be unique over namespaces.
func (l *Lab) WorkloadOf(ctx context.Context, manager *Cluster, key client.ObjectKey) (*Cluster, error) {
	l.mutex.Lock()
	known := l.clusters[key.Name]
	l.mutex.Unlock()
	if known != nil {
		return known, nil
	}
	var secret corev1.Secret
	if err := manager.Client.Get(ctx, client.ObjectKey{
		Namespace: key.Namespace, Name: key.Name + "-kubeconfig",
	}, &secret); err != nil {
		return nil, fmt.Errorf("finding the kubeconfig of cluster %s: %w", key.Name, err)
	}
	return l.connect(ctx, key.Name, secret.Data["value"])
}

// Stop removes the lab: its machines, its switch, its files. It also removes a partly started lab.
func (l *Lab) Stop(ctx context.Context) error {
	l.mutex.Lock()
	clusters := l.clusters
	l.clusters = map[string]*Cluster{}
	l.mutex.Unlock()
	for _, cluster := range clusters {
		cluster.proxy.Close()
	}
	var failures []error
	if l.bmc != nil {
		failures = append(failures, l.bmc.Close())
	}
	if l.ramdisk != nil {
		failures = append(failures, l.ramdisk.Close())
	}
	// Without the claim the files belong to another lab.
	if l.claim != nil {
		failures = append(failures, l.claim.Release(ctx), os.RemoveAll(l.folder))
	}
	if l.control != nil {
		failures = append(failures, l.control.close())
	}
	return errors.Join(failures...)
}
