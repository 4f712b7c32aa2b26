package hostdata

// Keys of the Secrets with rendered data.
const (
	MetaDataKey    = "metaData"
	NetworkDataKey = "networkData"
)

// MetaDataSecret returns the name of the Secret with the meta-data of a Metal3Machine.
func MetaDataSecret(machine string) string { return machine + "-metadata" }

// NetworkDataSecret returns the name of the Secret with the network-data of a Metal3Machine.
func NetworkDataSecret(machine string) string { return machine + "-networkdata" }
