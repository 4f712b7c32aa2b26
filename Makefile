# Requires Go, a C compiler (for the race detector), make, bash and git. Modules under hack/ pin all other programs, which
# the targets build when they first run them. `make help` lists the targets.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# All programs, in all checkouts, share the packages in the build cache of Go: with those of Cluster API, which has this tag.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -tags=fieldsv1string $(GOFLAGS)

# The version and the images of the release.
VERSION ?= v1.15.0
IMAGE ?= ghcr.io/metal3-pivot/cluster-api-provider-metal3
# The guard image of nodes. The default tag is the version of the manager.
GUARD_IMAGE ?= ghcr.io/metal3-pivot/keepalived-guard
TAG ?= $(VERSION)
PLATFORMS ?= linux/amd64,linux/arm64
# The output of docker buildx: type=registry pushes, type=docker loads one platform into the local engine.
IMAGE_OUTPUT ?= type=image,push=false
# Additional flags of docker buildx build, such as --provenance=mode=max --sbom=true.
IMAGE_FLAGS ?=

# Folder with manifests of CAPM3. If empty, tests skip them.
ifdef CAPM3_MANIFESTS
override CAPM3_MANIFESTS := $(abspath $(CAPM3_MANIFESTS))
export CAPM3_MANIFESTS
endif

# The version of the programs, for logs and the user agent.
COMMIT = $(shell git rev-parse HEAD)
COMMIT_DATE = $(shell TZ=UTC git show --no-patch --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD)
TREE_STATE = $(shell test -z "$$(git status --porcelain)" && echo clean || echo dirty)
VERSION_PACKAGE := sigs.k8s.io/cluster-api/version
LDFLAGS = -s -w \
	-X $(VERSION_PACKAGE).gitVersion=$(VERSION) \
	-X $(VERSION_PACKAGE).gitMajor=$(word 1,$(subst ., ,$(VERSION:v%=%))) \
	-X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(VERSION:v%=%))) \
	-X $(VERSION_PACKAGE).gitCommit=$(COMMIT) \
	-X $(VERSION_PACKAGE).gitTreeState=$(TREE_STATE) \
	-X $(VERSION_PACKAGE).buildDate=$(COMMIT_DATE)

MODULES := . hack/bmo hack/bmoearlier hack/capi hack/certmanager hack/controlplane hack/coredns hack/ignition hack/inclusteripam hack/ipam hack/krewvalidator hack/linters hack/nodes hack/nodesearlier hack/tools hack/vuln

##@ Daily

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Write deep copies, CRDs, roles, webhook manifests and parts of the documents from the Go code
	@tools="$$(go run ./hack/binaries tools)"; \
	echo "==> deep copies"; \
	"$$tools/controller-gen" object paths=./api/...; \
	echo "==> CRDs"; \
	rm -f config/crd/bases/*.yaml; \
	"$$tools/controller-gen" crd:crdVersions=v1 paths=./api/... output:crd:dir=config/crd/bases; \
	echo "==> roles"; \
	"$$tools/controller-gen" rbac:roleName=manager-role paths=./controllers/... paths=./internal/... \
		output:rbac:dir=config/rbac; \
	echo "==> webhooks"; \
	"$$tools/controller-gen" webhook paths=./internal/webhooks/... output:webhook:dir=config/webhook; \
	echo "==> config/ironic"; go run ./hack/ironicmanifests; \
	echo "==> generated parts of the documents"; \
	go run ./hack/docs

.PHONY: build
build: ## Build the manager into out/bin
	go build -ldflags "$(LDFLAGS)" -o out/bin/manager .

.PHONY: plugin
plugin: ## Build the plugin of clusterctl and kubectl into out/bin
	go build -ldflags "$(LDFLAGS)" -o out/bin/clusterctl-metal3 ./cmd/clusterctl-metal3

.PHONY: lint
lint: ## Run the linters
	@linters="$$(go run ./hack/binaries linters)"; \
	"$$linters/golangci-lint" run ./... && echo "lint: nothing to object to"

.PHONY: format
format: ## Format the Go code
	@linters="$$(go run ./hack/binaries linters)"; \
	"$$linters/golangci-lint" fmt

##@ Tests

# LAB=always runs the tests of the lab even if nothing in them changed.
LAB ?=

.PHONY: test
test: programs ## Run the unit tests and the suites on an API server
	@go run ./hack/tests $(if $(filter always,$(LAB)),--lab) test

# STORY selects stories by a regular expression, such as 'host has wrong credentials'. Each story runs alone.
STORY ?=

.PHONY: test-e2e
test-e2e: programs release-manifests ## Run the release and moves with the real programs of Cluster API, as root also on real nodes
	@go run ./hack/tests --story "$(STORY)" e2e

# SEED repeats the random faults of an earlier run.
SEED ?= 0

.PHONY: test-nightly
test-nightly: programs release-manifests ## Run all stories, random faults, fuzzing and benches; takes hours
	@go run ./hack/tests --story "$(STORY)" --seed "$(SEED)" nightly

# The repository of CAPM3, and a commit of its 1.14. Its go.mod requires release candidates of the APIs of BMO and IPAM.
# The build replaces them by the versions of this provider.
CAPM3_SOURCE ?= https://github.com/metal3-io/cluster-api-provider-metal3
CAPM3_COMMIT ?= 2f6d76b8
CAPM3_APIS := github.com/metal3-io/baremetal-operator/apis github.com/metal3-io/ip-address-manager/api

.PHONY: capm3-manager
capm3-manager: ## Build the manager of CAPM3 that test/upgrade and test/move can run, into out/inputs/capm3
	rm -rf out/inputs/capm3
	git clone --quiet $(CAPM3_SOURCE) out/inputs/capm3
	git -C out/inputs/capm3 checkout --quiet $(CAPM3_COMMIT)
	requirements="$$(go list -m -f '-require={{.Path}}@{{.Version}}' $(CAPM3_APIS))"; \
	for module in . api; do go -C out/inputs/capm3/$$module mod edit $$requirements; done
	CGO_ENABLED=0 go -C out/inputs/capm3 build -mod=mod -o manager .

.PHONY: test-times
test-times: ## Print the duration of the last run of each tier, and its slowest tests
	@go run ./hack/tests times

FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## Fuzz the parsers of external data, for FUZZTIME each
	@for package in ./baremetal/bootdata ./baremetal/host ./baremetal/vip ./internal/guard/advert ./internal/wire; do \
		targets="$$(go test -list '^Fuzz' "$$package" | grep '^Fuzz')"; \
		for target in $$targets; do \
			echo "==> $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime "$(FUZZTIME)" "$$package"; \
		done; \
	done; echo "fuzz: nothing found"

##@ Lab

.PHONY: demo
demo: root compiled release-manifests ## Show a cluster on real nodes and a real Ironic, from clusterctl init through the pivot to lost machines
	@go run ./hack/demo

.PHONY: demo-clean
demo-clean: root ## Remove the lab of a demo that was kept or killed
	@go run ./hack/demo clean

.PHONY: lab
lab: root compiled ## Build the files of the lab into the cache, unless they exist
	@go run ./test/lab/cmd/lab build && echo "lab: all files exist"

# Most of the packages of the lab and of the demo are also in the programs of Cluster API, whose build shows its progress.
.PHONY: compiled
compiled:
	@echo "==> the programs of Cluster API, which are built once"
	@go run ./hack/binaries capi >/dev/null

.PHONY: root
root:
	@test "$$(id -u)" = 0 || { \
		echo "FAILED: the lab requires root to create Linux namespaces: run sudo env PATH=\"\$$PATH\" make $(MAKECMDGOALS)"; exit 1; }

##@ Benches

# Numbers of Metal3Machines. 300,1000,5000 takes about 40 minutes.
SIZES ?= 100,300,1000

.PHONY: bench
bench: programs ## Measure the manager with SIZES machines (100,300,1000)
	@go run ./test/scale -sizes "$(SIZES)" -patience 20m
	@echo; echo "==> the same with competing managers"; go run ./test/scale -sizes 200 -competitors 8
	@echo; echo "==> pivot status of 1,000 hosts in 20 namespaces"
	@go test -run '^$$' -bench '^BenchmarkStatusOfManyNamespaces$$' ./internal/plugin

.PHONY: bench-data
bench-data: programs ## Measure how fast 1,000 machines get the data of one template
	@go run ./test/scale -data -sizes 250,1000

# Runs of each storm. One run of all takes about seven minutes.
STORMS ?= 3

.PHONY: bench-vip
bench-vip: lab ## Measure the VIP and Ironic during storms, as root
	@go test -run '^$$' -bench '^BenchmarkEndpoint$$' -benchtime $(STORMS)x -timeout 60m ./internal/guard

# PIVOT_IRONIC=real uses the real Ironic of make lab instead of an Ironic in memory, as root.
PIVOT_IRONIC ?= fake
PIVOT_HOSTS ?= 100

# PIVOTS is the number of pivots with random faults, which SEED selects. 0 is a fixed seed.
PIVOTS ?= 50

.PHONY: bench-pivot
bench-pivot: programs ## Measure a pivot of PIVOT_HOSTS hosts (100), and run twice PIVOTS pivots (50) with random faults
	@go test -count=1 -timeout 60m -v ./test/move -run '^TestMove$$' -args -ginkgo.skip='random faults' -move.measure \
		-move.hosts="$(PIVOT_HOSTS)" -ironic="$(PIVOT_IRONIC)"
	@echo "==> $(PIVOTS) pivots with random faults, and $(PIVOTS) with a handover of the Ironic endpoint after each"
	@go test -count=1 -timeout 85m -v ./test/move -run '^TestMove$$' -args -ginkgo.focus='random faults' \
		-ginkgo.timeout=80m -move.measure -move.pivots="$(PIVOTS)" $(if $(filter-out 0,$(SEED)),-move.seed="$(SEED)")
	@echo "==> time without Ironic when the VIP moves to another node; requires root"
	@go test -run '^$$' -bench '^BenchmarkEndpoint$$/^storms$$/^(power_off|demoted.*)$$' -benchtime 5x -timeout 60m ./internal/guard

##@ Checks

.PHONY: licenses
licenses: ## Check the licences of the modules in the programs
	@go run ./hack/licenses

.PHONY: verify
verify: generate licenses ## Require that generated files are up to date, check licences, and test documents and tools
	@changed=0; \
	for module in $(MODULES); do \
		echo "==> go mod tidy in $$module"; \
		(cd "$$module" && go mod tidy -diff) || changed=1; \
	done; \
	if [ "$$changed" != 0 ]; then \
		echo "verify: FAILED: run go mod tidy in the modules above"; exit 1; \
	fi; \
	differing="$$(git status --porcelain)"; \
	if [ -n "$$differing" ]; then \
		git --no-pager diff --stat; \
		echo "verify: FAILED: these files are not committed, or differ from what make generate writes:"; \
		echo "$$differing"; exit 1; \
	fi; \
	echo "verify: generated files are up to date"
	@go run ./hack/tests checks

# Flags of hack/vulnerabilities: -required fails if the database is unreachable, -db=URL reads another database.
VULNERABILITY_FLAGS ?=

.PHONY: vulnerabilities
vulnerabilities: ## Find known vulnerabilities in the functions that the programs call; skipped if the database is unreachable
	@go run ./hack/vulnerabilities $(VULNERABILITY_FLAGS)

##@ Release

.PHONY: release-manifests
release-manifests: ## Write the release files of clusterctl into out/release/VERSION, in place of other versions
	@rm -rf out/release
	@go run ./hack/releasemanifests -version "$(VERSION)" -image "$(IMAGE)" -guard-image "$(GUARD_IMAGE)" -tag "$(TAG)"
	@if [ -n "$${SUDO_UID:-}" ]; then chown -R "$$SUDO_UID:$$SUDO_GID" out; fi

.PHONY: images
images: ## Build the images of the manager and of the guard for all PLATFORMS
	@command -v docker >/dev/null || { echo "images: FAILED: there is no docker command: install Docker with buildx"; exit 1; }
	@docker info >/dev/null 2>&1 || { echo "images: FAILED: no docker engine answers: start one"; exit 1; }
	@docker buildx version >/dev/null 2>&1 || { echo "images: FAILED: docker has no buildx: install the plugin"; exit 1; }
	docker buildx build --platform "$(PLATFORMS)" --output "$(IMAGE_OUTPUT)" $(IMAGE_FLAGS) --tag "$(IMAGE):$(TAG)" \
		--build-arg "VERSION=$(VERSION)" --build-arg "COMMIT=$(COMMIT)" --build-arg "CREATED=$(COMMIT_DATE)" \
		--build-arg "LDFLAGS=$(LDFLAGS)" .
	docker buildx build --platform "$(PLATFORMS)" --output "$(IMAGE_OUTPUT)" $(IMAGE_FLAGS) --tag "$(GUARD_IMAGE):$(TAG)" \
		--build-arg "VERSION=$(VERSION)" --build-arg "COMMIT=$(COMMIT)" --build-arg "CREATED=$(COMMIT_DATE)" \
		--file images/keepalived/Dockerfile .

##@ Housekeeping

.PHONY: programs
programs: ## Build the pinned programs, unless they are cached
	@for set in tools controlplane capi bmo ipam inclusteripam ignition linters; do go run ./hack/binaries $$set >/dev/null; done

.PHONY: clean
clean: ## Remove build results from the checkout; the pinned programs stay in the cache
	rm -rf out .run
