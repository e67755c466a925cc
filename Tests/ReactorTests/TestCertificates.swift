import Reactor
import Testbed
import Testing

/// A certificate authority, and a server's certificate that it has signed.
struct TestCertificates {
    let directory: TemporaryDirectory
    let caFile: String
    let certificateFile: String
    let keyFile: String

    init(hosts: [String] = ["localhost", "127.0.0.1", "::1"]) throws {
        directory = try TemporaryDirectory()
        (caFile, certificateFile, keyFile) = try GeneratedCertificate.write(directory: directory.path, hosts: hosts)
    }

    func server(_ protocols: [String] = ["h2"], versionMax: TLSVersion = .tls13) throws -> TLSContext {
        try TLSContext.server(
            certificateFile: certificateFile,
            keyFile: keyFile,
            applicationProtocols: protocols,
            versionMax: versionMax
        )
    }

    func client(_ protocols: [String] = ["h2"]) throws -> TLSContext {
        try TLSContext.client(caFile: caFile, applicationProtocols: protocols)
    }
}
