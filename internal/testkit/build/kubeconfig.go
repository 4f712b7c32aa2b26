package build

// SilentKubeconfig is a valid kubeconfig for an API server that does not answer.
const SilentKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: silent, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: silent, context: {cluster: silent, user: silent}}]
users: [{name: silent, user: {token: credential}}]
current-context: silent
`
