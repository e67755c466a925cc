import Foundation
import Testbed
import Testing

@testable import CausewayLab

/// Searches for device tokens, provider tokens and signing keys. People, log collectors and dashboards read a
/// worker's outputs, so these must contain no secret.
struct SecretSearch {
    /// The minimum length of a text that is searched for. A shorter text, such as the last line of a key, may occur by
    /// chance.
    private static let charactersMin = 16

    private var secrets: [(name: String, texts: [String])] = []

    /// - Parameter token: the token in hexadecimal.
    mutating func add(token: String) {
        let bytes = stride(from: 0, to: token.utf8.count - 1, by: 2)
            .compactMap { UInt8(token.dropFirst($0).prefix(2), radix: 16) }
        let base64 = Data(bytes).base64EncodedString()
        add("a device token", [token.lowercased(), token.uppercased(), base64])
    }

    /// - Parameter keyFile: a PEM file; each line of its body is a secret.
    mutating func add(keyFile: String) throws {
        let lines = try String(contentsOfFile: keyFile, encoding: .utf8).split(separator: "\n")
        add("the key \(keyFile)", lines.filter { !$0.hasPrefix("-----") }.map(String.init))
    }

    mutating func add(_ name: String, _ texts: [String]) {
        secrets.append((name, texts.filter { $0.count >= Self.charactersMin }))
    }

    /// Returns the names of the added secrets that the text contains, and the kinds of secrets whose form
    /// ``SecretPatterns`` finds in it.
    func findings(in text: String) -> [String] {
        secrets.filter { $0.texts.contains(where: text.contains) }.map(\.name) + SecretPatterns.findings(in: text)
    }
}

extension ExampleRun {
    /// Returns the places that contain a registered token, the signing key, or a text in the form of a secret.
    /// It searches the run's logs, exported traces, the worker's pages, and the results that the test has read.
    func secretFindings() throws -> [String] {
        var search = SecretSearch()
        try search.add(keyFile: deployment.simulator.keyFile)
        for registration in try lastRegistrations ?? readRegistrations() {
            search.add(token: try #require(registration["token"] as? String))
        }
        var findings: [String] = []
        func collect(_ text: String, _ place: String) {
            findings += search.findings(in: text).map { "\(place): \($0)" }
        }
        for name in try FileManager.default.contentsOfDirectory(atPath: deployment.directory)
        where name.hasSuffix(".log") || name.hasSuffix(".jsonl") {
            collect(try String(contentsOfFile: deployment.path(name), encoding: .utf8), name)
        }
        // The worker's pages can be read only while the worker runs. Some tests have stopped it.
        if let worker = deployment.worker, worker.poll() == nil {
            for path in ["/statusz", "/statusz?format=html", "/statusz?format=json", "/metrics", "/livez", "/readyz"] {
                collect(try WorkerPage(path, port: deployment.httpPort).text, path)
            }
        }
        for (command, objects) in results.byCommand {
            for object in objects {
                // JSON may escape slashes, which occur in Base64. Here slashes must be written as in the
                // secret.
                let json = try JSONSerialization.data(withJSONObject: object, options: .withoutEscapingSlashes)
                collect(String(decoding: json, as: UTF8.self), "the result of \(command)")
            }
        }
        return findings
    }
}
