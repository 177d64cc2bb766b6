package sandbox

// etcPaths are the parts of /etc that programs need. The rest may be secret.
var etcPaths = []string{
	"alternatives", "ca-certificates.conf", "fonts", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "magic", "mime.types", "perl", "pki/ca-trust/extracted", "profile.d", "python3", "ssl/certs",
	"ssl/openssl.cnf", "terminfo", "timezone",
}

const (
	hostsFile = "/etc/hosts"
	hosts     = "127.0.0.1 localhost sandbox\n::1 localhost\n"
)

// etcFiles replace files of /etc whose content depends on the machine.
var etcFiles = []etcFile{
	{"/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n" +
		"sandbox:x:1000:1000:sandbox:" + home + ":/bin/bash\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"/etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
	{hostsFile, hosts},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
}

// etcFilesOf are those of a program. An image has its own, except for the name of
// the machine.
func etcFilesOf(root *Root) []etcFile {
	if root == nil {
		return etcFiles
	}
	return []etcFile{{hostsFile, hosts}}
}

type etcFile struct{ path, content string }
