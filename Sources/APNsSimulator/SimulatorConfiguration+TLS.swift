import Reactor

extension SimulatorConfiguration.TransportSecurity {
    /// Makes the TLS context of the service; nil for cleartext. `caFile` is the PEM file of the certificate authority
    /// that this call has created for a self-signed certificate; otherwise nil.
    func makeTLSContext() throws(SimulatorError) -> (tls: TLSContext?, caFile: String?) {
        do throws(TLSError) {
            switch self {
            case .cleartext:
                return (nil, nil)
            case .certificate(let certificateFile, let keyFile):
                let tls = try TLSContext.server(
                    certificateFile: certificateFile,
                    keyFile: keyFile,
                    applicationProtocols: ["h2"]
                )
                return (tls, nil)
            case .selfSigned(let directory):
                let files = try GeneratedCertificate.write(
                    directory: directory,
                    hosts: ["localhost", "127.0.0.1", "::1"]
                )
                let tls = try TLSContext.server(
                    certificateFile: files.certificateFile,
                    keyFile: files.keyFile,
                    applicationProtocols: ["h2"]
                )
                return (tls, files.caFile)
            }
        } catch {
            throw SimulatorError(.invalidConfiguration, "\(error)")
        }
    }
}
