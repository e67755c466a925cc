import Glibc
import Reactor
import Testing

/// A directory that is removed, with its files, when the test releases it.
final class TemporaryDirectory: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/reactor-tests-XXXXXX".utf8CString)
        path = try #require(mkdtemp(&template).map { String(cString: $0) })
    }

    deinit {
        if let directory = opendir(path) {
            while let entry = readdir(directory) {
                let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                    String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
                }
                if name != ".", name != ".." { unlink("\(path)/\(name)") }
            }
            closedir(directory)
        }
        rmdir(path)
    }
}

/// A certificate authority and a server's certificate from it.
struct TestCertificates {
    let directory: TemporaryDirectory
    let caFile: String
    let certificateFile: String
    let keyFile: String

    init(hosts: [String] = ["localhost", "127.0.0.1", "::1"]) throws {
        directory = try TemporaryDirectory()
        (caFile, certificateFile, keyFile) = try SelfSignedCertificate.write(directory: directory.path, hosts: hosts)
    }

    func server(_ protocols: [String] = ["h2"], maximumVersion: TLSVersion = .tls13) throws -> TLSContext {
        try TLSContext.server(
            certificateFile: certificateFile,
            keyFile: keyFile,
            applicationProtocols: protocols,
            maximumVersion: maximumVersion
        )
    }

    func client(_ protocols: [String] = ["h2"]) throws -> TLSContext {
        try TLSContext.client(caFile: caFile, applicationProtocols: protocols)
    }
}
