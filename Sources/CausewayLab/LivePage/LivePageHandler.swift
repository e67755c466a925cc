import HTTP

/// Handles the page's requests on the server's thread. A request about one phone goes to `PhoneHistoryResponder`, which
/// has its own thread.
final class LivePageHandler: HTTPRequestHandler {
    /// A header that only the page's own script sends. Browsers do not let the script of another site send this header
    /// to this server.
    static let scriptHeader = "x-causeway-page"
    private static let contentSecurityPolicy =
        """
        default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri \
        'none'; form-action 'none'; frame-ancestors 'none'
        """

    private let pageMailbox: LivePageMailbox
    private let sampler: LivePageSampler
    private let phoneHistoryResponder: PhoneHistoryResponder

    init(pageMailbox: LivePageMailbox, sampler: LivePageSampler, phoneHistoryResponder: PhoneHistoryResponder) {
        self.pageMailbox = pageMailbox
        self.sampler = sampler
        self.phoneHistoryResponder = phoneHistoryResponder
    }

    func respond(to exchange: HTTPExchange) -> HTTPResponse? {
        let head = exchange.head
        guard Self.isLocal(head.fields["host"]) else { return .statusOnly(403) }
        switch (head.method, head.path) {
        case ("GET", "/events"): return openEventStream(exchange)
        case ("GET", "/history"):
            guard let number = head.query["phone"].flatMap({ Int($0) }), number >= 0 else { return .statusOnly(400) }
            return phoneHistoryResponder.enqueue(exchange, about: number)
        case ("POST", "/press"): return press(head)
        case ("GET", let path):
            guard let file = PageFile(path: path) else { return .statusOnly(404) }
            var response = HTTPResponse(status: 200, contentType: file.contentType, body: file.content)
            response.contentSecurityPolicy = Self.contentSecurityPolicy
            return response
        default: return .statusOnly(405)
        }
    }

    func refusal(status: Int) -> HTTPResponse { .statusOnly(status) }

    /// Whether the `Host` header names this machine. Other names are refused, because another site can let its own name
    /// point to 127.0.0.1 (DNS rebinding).
    static func isLocal(_ host: String?) -> Bool {
        guard let name = host?.split(separator: ":").first else { return false }
        return name == "127.0.0.1" || name == "localhost"
    }

    private func openEventStream(_ exchange: HTTPExchange) -> HTTPResponse? {
        guard
            let stream = exchange.openStream(
                HTTPResponse(status: 200, contentType: "text/event-stream", text: "retry: 1000\n\n")
            )
        else { return .statusOnly(503) }
        sampler.add(stream)
        return nil
    }

    private func press(_ head: HTTPRequestHead) -> HTTPResponse {
        guard head.fields[Self.scriptHeader] != nil else { return .statusOnly(403) }
        guard let action = head.query["action"].flatMap({ PageAction(rawValue: $0) }) else { return .statusOnly(400) }
        return pageMailbox.press(action) ? HTTPResponse(status: 200, text: "pressed\n") : .statusOnly(409)
    }
}
