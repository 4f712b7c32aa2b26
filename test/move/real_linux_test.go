package move_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/bmc"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/computer"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/ironic"
)

// measuredImage is the image of all machines.
const measuredImage = "node"

// realIronic is a real Ironic, and computers whose ramdisks run an agent.
type realIronic struct {
	root    string
	process *ironic.Process
	boards  *bmc.Server
	network *computer.Network
	count   int
}

func newRealIronic(ctx context.Context) measuredIronic {
	GinkgoHelper()
	if os.Geteuid() != 0 {
		Skip("a real Ironic needs root: it runs in a root file system of its own")
	}
	root, err := ironic.CachedRoot()
	Expect(err).NotTo(HaveOccurred())
	if root == "" {
		Skip("the cache holds no real Ironic: make lab builds it")
	}
	r := &realIronic{root: root, network: computer.NewNetwork()}
	r.boards, err = bmc.Start(ctx, r.network)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.boards.Close)
	Expect(r.boards.AddImage(measuredImage, "0123456789abcdef")).To(Succeed())
	state := GinkgoT().TempDir()
	media := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(state, ironic.ImagesDir))))
	DeferCleanup(media.Close)
	r.run(ctx, ironic.Options{State: state, Config: ironic.Config{ImagesURL: media.URL}})
	DeferCleanup(func(ctx context.Context) { Expect(r.process.Stop(ctx)).To(Succeed()) })
	return r
}

func (r *realIronic) run(ctx context.Context, options ironic.Options) {
	GinkgoHelper()
	options.Root, options.Log = r.root, GinkgoWriter
	var err error
	r.process, err = ironic.Run(ctx, options)
	Expect(err).NotTo(HaveOccurred())
}

func (r *realIronic) access() ironicapi.Endpoint {
	return ironicapi.Endpoint{
		URL: r.process.Endpoint(), Authority: r.process.Credentials.CA,
		Username: r.process.Credentials.Username, Password: r.process.Credentials.Password,
	}
}

func (r *realIronic) empty(ctx context.Context) {
	GinkgoHelper()
	Expect(r.process.Stop(ctx)).To(Succeed())
	r.run(ctx, ironic.Options{Config: r.process.Config, Credentials: r.process.Credentials})
}

// host gives the host a computer. Inspection and cleaning would only make the preparation longer.
func (r *realIronic) host(host *bmov1alpha1.BareMetalHost) {
	GinkgoHelper()
	r.count++
	name := host.Namespace + "-" + host.Name
	made := computer.New(computer.Options{
		MAC: host.Spec.BootMACAddress, Address: netip.AddrFrom4([4]byte{127, 1, byte(r.count >> 8), byte(r.count)}),
		Network: r.network, Log: slog.New(slog.DiscardHandler),
		Failed: func(err error) { GinkgoWriter.Printf("the agent of %s ended: %v\n", name, err) },
	})
	DeferCleanup(made.PowerOff)
	Expect(r.boards.Add(name, boardUser, goodPassword, made)).To(Succeed())
	server, system := bmc.RedfishAddress(name)
	host.Spec.BMC.Address = "redfish-virtualmedia+" + r.network.Actual(server) + system
	host.Spec.InspectionMode = bmov1alpha1.InspectionModeDisabled
	host.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeDisabled
}

func (r *realIronic) images() (kernel, ramdisk string, node *infrav1.Image) {
	const files = "file://" + ironic.ConfigDir + "/"
	return files + ironic.KernelFile, files + ironic.RamdiskFile, &infrav1.Image{
		URL:      r.network.Actual(bmc.ImageURL(measuredImage)),
		Checksum: r.network.Actual(bmc.ChecksumURL(measuredImage)), ChecksumType: "sha256",
	}
}

func (r *realIronic) acts() map[string]int {
	counts := map[string]int{}
	for _, operation := range r.boards.Operations() {
		if operation.Changes() {
			counts[operation.Machine]++
		}
	}
	return counts
}
