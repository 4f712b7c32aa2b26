package v1beta1

import (
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

func metaDataToHub(in MetaData) infrav1.MetaData {
	return infrav1.MetaData{
		Strings: convertKeyed(in.Strings, func(in MetaDataString) (string, infrav1.MetaDataString) {
			return in.Key, infrav1.MetaDataString(in)
		}),
		ObjectNames: convertKeyed(in.ObjectNames, func(in MetaDataObjectName) (string, infrav1.MetaDataObjectName) {
			return in.Key, infrav1.MetaDataObjectName{Key: in.Key, Object: infrav1.SourceObject(in.Object)}
		}),
		Indexes:             convertKeyed(in.Indexes, metaDataIndexToHub),
		IPAddressesFromPool: convertKeyed(in.IPAddressesFromPool, fromPoolToHub),
		PrefixesFromPool:    convertKeyed(in.PrefixesFromPool, fromPoolToHub),
		GatewaysFromPool:    convertKeyed(in.GatewaysFromPool, fromPoolToHub),
		DNSServersFromPool:  convertKeyed(in.DNSServersFromPool, fromPoolToHub),
		FromHostInterfaces: convertKeyed(in.FromHostInterfaces,
			func(in MetaDataHostInterface) (string, infrav1.MetaDataHostInterface) {
				return in.Key, infrav1.MetaDataHostInterface(in)
			}),
		FromLabels: convertKeyed(in.FromLabels, func(in MetaDataFromLabel) (string, infrav1.MetaDataFromLabel) {
			return in.Key, infrav1.MetaDataFromLabel{
				Key: in.Key, Object: infrav1.SourceObject(in.Object), Label: in.Label,
			}
		}),
		FromAnnotations: convertKeyed(in.FromAnnotations,
			func(in MetaDataFromAnnotation) (string, infrav1.MetaDataFromAnnotation) {
				return in.Key, infrav1.MetaDataFromAnnotation{
					Key: in.Key, Object: infrav1.SourceObject(in.Object), Annotation: in.Annotation,
				}
			}),
		Namespaces: convertKeyed(in.Namespaces, func(in MetaDataNamespace) (string, infrav1.MetaDataNamespace) {
			return in.Key, infrav1.MetaDataNamespace(in)
		}),
	}
}

func metaDataIndexToHub(in MetaDataIndex) (string, infrav1.MetaDataIndex) {
	return in.Key, infrav1.MetaDataIndex{
		Key: in.Key, Offset: toInt32(in.Offset), Step: toInt32(in.Step), Prefix: in.Prefix, Suffix: in.Suffix,
	}
}

func fromPoolToHub(in FromPool) (string, infrav1.FromPool) {
	return in.Key, infrav1.FromPool(in)
}

func metaDataFromHub(in infrav1.MetaData) MetaData {
	return MetaData{
		Strings: convertList(in.Strings, func(in infrav1.MetaDataString) MetaDataString {
			return MetaDataString(in)
		}),
		ObjectNames: convertList(in.ObjectNames, func(in infrav1.MetaDataObjectName) MetaDataObjectName {
			return MetaDataObjectName{Key: in.Key, Object: string(in.Object)}
		}),
		Indexes: convertList(in.Indexes, func(in infrav1.MetaDataIndex) MetaDataIndex {
			return MetaDataIndex{
				Key: in.Key, Offset: int(in.Offset), Step: int(in.Step), Prefix: in.Prefix, Suffix: in.Suffix,
			}
		}),
		Namespaces: convertList(in.Namespaces, func(in infrav1.MetaDataNamespace) MetaDataNamespace {
			return MetaDataNamespace(in)
		}),
		IPAddressesFromPool: convertList(in.IPAddressesFromPool, fromPoolFromHub),
		PrefixesFromPool:    convertList(in.PrefixesFromPool, fromPoolFromHub),
		GatewaysFromPool:    convertList(in.GatewaysFromPool, fromPoolFromHub),
		DNSServersFromPool:  convertList(in.DNSServersFromPool, fromPoolFromHub),
		FromHostInterfaces: convertList(in.FromHostInterfaces,
			func(in infrav1.MetaDataHostInterface) MetaDataHostInterface { return MetaDataHostInterface(in) }),
		FromLabels: convertList(in.FromLabels, func(in infrav1.MetaDataFromLabel) MetaDataFromLabel {
			return MetaDataFromLabel{Key: in.Key, Object: string(in.Object), Label: in.Label}
		}),
		FromAnnotations: convertList(in.FromAnnotations, func(in infrav1.MetaDataFromAnnotation) MetaDataFromAnnotation {
			return MetaDataFromAnnotation{Key: in.Key, Object: string(in.Object), Annotation: in.Annotation}
		}),
	}
}

func fromPoolFromHub(in infrav1.FromPool) FromPool {
	return FromPool(in)
}
