import HTTP

/// Sends HTTP requests on loopback, to the simulator's control interface or to a worker's `/metrics`, and waits for
/// each response.
struct LoopbackHTTPClient {
    static let responseBodyBytesMax = 256 << 20
    static let timeoutMilliseconds = 120_000

    let port: UInt16
    /// The server's name in errors.
    var serverName = "the simulator"

    /// Sends a request and returns the response, whatever its status is. Throws an error if no complete HTTP response
    /// of at most `responseBodyBytesMax` arrives within the time limit.
    func request(_ method: String, _ target: String, body: [UInt8] = []) throws(LabError) -> HTTPClient.Response {
        var client = HTTPClient(
            address: HTTPAddress(host: "127.0.0.1", port: port, path: target),
            timeoutMilliseconds: Self.timeoutMilliseconds
        )
        client.responseBodyBytesMax = Self.responseBodyBytesMax
        do {
            return try client.request(method, body: body)
        } catch {
            throw LabError("\(method) \(target) to \(serverName): \(error)")
        }
    }

    /// Sends a request and returns the body of the response. Throws an error if the response is not a success.
    func requestSuccessfully(_ method: String, _ target: String, body: [UInt8] = []) throws(LabError) -> [UInt8] {
        let response = try request(method, target, body: body)
        guard (200...299).contains(response.status) else {
            let text = String(decoding: response.body.prefix(500), as: UTF8.self)
            throw LabError("\(serverName) responds with \(response.status) to \(method) \(target): \(text)")
        }
        return response.body
    }
}
