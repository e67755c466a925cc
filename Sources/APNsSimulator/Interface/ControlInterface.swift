import FlyingFox
import FlyingSocks
import FoundationEssentials
import Glibc

/// The HTTP/1.1 interface of the simulator, on 127.0.0.1 only, for demonstrations and for tests in other processes.
///
/// Bodies are JSON objects in both directions. An error is `{"error":"…","reason":"…"}` with a status of 400 or higher.
///
/// - `GET /`. Gives `host`, `port`, `managementPort`, `environment`, `caFile`.
/// - `POST /apps`. Takes `app`, `teamId`, `attributesTypes`: `name`, `attributes` and `contentState` (see `Shape`),
///   `identifierAttribute`.
/// - `POST /phones`. Takes `app`, `devices` or `prefix` and `count`, `environment`, `frequentUpdates`, `channels`: whether their
///   registrations say that they take channels, `audiences` of the registrations. Gives `installed`, `next`.
/// - `POST /offline`, `POST /online`. Takes `app`, `devices`.
/// - `POST /activities`. Takes `app`, `activities`: `activity`, `device`, `attributesType`, `attributes`, `contentState`, `timestamp`,
///   `audiences`, `channel`; members beside the list are the defaults. Or one activity for each of `devices`, or of `devicePrefix` and
///   `count`, named by `prefix` and number. Gives `registrations`.
/// - `GET /activities?app&since&limit&alerts`. Gives `activities`, each with its alerts if `alerts=true`; `next`.
/// - `GET /activity?app&activity`, `GET /phone?app&device`. Gives what is shown.
/// - `GET /registrations?since&limit&waitMilliseconds`. Gives `registrations`: `key`, `value`; `next`.
/// - `POST /rotate`. Takes `app`, `activity` or `device` and `attributesType`, `oldToken`: `retired` or `void`.
/// - `POST /dismiss`. Takes `app`, `activity`.
/// - `POST /uninstall`. Takes `app`, `device`.
/// - `POST /expect`. Takes `app`, `activities`: for each id a content state, or null for nothing. Gives `matching`, `mismatches`.
/// - `GET /summary`, `GET /stats`. Gives counts of the phones, of the service.
/// - `POST /crowds`. Takes a crowd of light phones (`LightCrowd`): `app`, `name`, `count`, `audiences`, `environment`, `frequentEvery`,
///   `identifiers`: `numbered` or `uuid`, `timestamp` that they show at first. Gives `phones`.
/// - `GET /crowd?app&name`. Gives what its phones show, newest first: `shown`: `timestamp`, `contentState`, `phones`, `pushes`,
///   `firstMilliseconds`, `lastMilliseconds`; the numbers of phones that went back in time (`reversed`), got an alert twice
///   (`alertedTwice`), got no push (`unreached`), are `ended` and `gone`; sums of `pushes`, `repeatedPushes`, `alerts`, `refused`;
///   `effects`.
/// - `GET /crowd/registrations?app&name&from&limit`. Gives `registrations`: `key`, `value`; `next`.
/// - `POST /crowd/dismiss`, `POST /crowd/rotate`. Takes `app`, `name`, `from`, `count`. Gives `phones`.
/// - `GET`, `PUT`, `DELETE /faults`. Takes the members of `Faults`; latency as `latencyMillisecondsMin` and `…Most`, `reasonShares` an
///   object by Apple's words, `goAway` as `goAwayCode`, `goAwayReason` and `goAwayGraceMilliseconds`. Gives the same.
/// - `GET`, `PUT`, `DELETE /management/faults`. Takes the same, for the service that manages channels. Gives the same.
/// - `GET /channels?app`. Gives `channels`, including deleted ones: `channel`, `storage`, `createdAt`, `deletedAt`, `subscribers`,
///   `broadcasts`, `stored`, `leastDistanceMilliseconds`.
/// - `POST /channels`. Takes `app`, `storage`: `none` or `newest`: creates a channel as somebody else. Gives `channel`.
/// - `POST /channels/delete`. Takes `app`, `channel`: deletes the channel as somebody else.
/// - `POST /broadcasts`. Takes `app`, `enabled`: the app's capability; turning it off deletes all its channels.
/// - `POST /goaway`. Takes nothing, or the members of `GoAway`: `code`, `reason`, `lastStream`, `graceMilliseconds`.
/// - `POST /cut`. Takes nothing: closes all connections without GOAWAY and close_notify.
/// - `POST /silence`. Takes nothing, or `stopsReading`: leaves all connections half open.
/// - `POST /clock`. Takes `advanceMilliseconds`.
/// - `POST /reset`.
///
/// If an item of a list is faulty, the items before it have been carried out.
final class ControlInterface: Sendable {
    /// The largest body. Bodies are read completely, and larger ones are refused.
    static let bodyBytesMax = JSONTape.textBytesMax
    /// Longer than the longest long poll.
    private static let timeoutSeconds = 90.0

    let port: UInt16
    private let server: HTTPServer
    private let task: Task<Void, any Error>

    private init(port: UInt16, server: HTTPServer, task: Task<Void, any Error>) {
        self.port = port
        self.server = server
        self.task = task
    }

    static func start(port: UInt16, simulator: Simulator) async throws(SimulatorError) -> ControlInterface {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: UInt32(0x7F00_0001).bigEndian)
        let configuration = HTTPServer.Configuration(
            address: address,
            timeout: timeoutSeconds,
            sharedRequestBufferSize: 65_536,
            logger: .disabled
        )
        let server = HTTPServer(config: configuration, handler: ControlHandler(simulator: simulator))
        let task = Task { try await server.run() }
        do {
            try await server.waitUntilListening(timeout: timeoutSeconds)
            guard case .ip4(_, let port) = await server.listeningAddress else {
                throw SimulatorError(.cannotListen, "the HTTP interface has no port")
            }
            return ControlInterface(port: port, server: server, task: task)
        } catch {
            task.cancel()
            throw SimulatorError(.cannotListen, "HTTP interface: \(error)")
        }
    }

    func stop() async {
        await server.stop()
        task.cancel()
    }
}

/// Finds the endpoint of a request, and turns errors into answers.
struct ControlHandler: HTTPHandler {
    let simulator: Simulator

    func handleRequest(_ request: HTTPRequest) async throws -> HTTPResponse {
        do {
            let call = ControlCall(
                method: request.method.rawValue,
                path: request.path,
                query: Self.parameters(request),
                body: try await Self.body(request)
            )
            return response(200, try await answer(call))
        } catch let error as SimulatorError {
            var writer = JSONWriter()
            writer.object { writer in
                writer.member("error", error.code.rawValue)
                writer.member("reason", error.reason)
            }
            return response(error.status, writer.bytes)
        }
    }

    /// Reads the body, whether its length is known beforehand or not.
    private static func body(_ request: HTTPRequest) async throws -> [UInt8] {
        let tooLong = SimulatorError(.limitReached, "body: longer than \(ControlInterface.bodyBytesMax) bytes")
        guard (request.bodySequence.count ?? 0) <= ControlInterface.bodyBytesMax else { throw tooLong }
        var body: [UInt8] = []
        for try await part in request.bodySequence {
            guard body.count + part.count <= ControlInterface.bodyBytesMax else { throw tooLong }
            body.append(contentsOf: part)
        }
        return body
    }

    private static func parameters(_ request: HTTPRequest) -> [String: String] {
        Dictionary(request.query.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }

    private func response(_ status: Int, _ body: [UInt8]) -> HTTPResponse {
        HTTPResponse(
            statusCode: HTTPStatusCode(status, phrase: status == 200 ? "OK" : "Error"),
            headers: [.contentType: "application/json"],
            body: Data(body)
        )
    }

    private func answer(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        switch (call.method, call.path) {
        case ("GET", "/"): try await describe()
        case ("POST", "/apps"): try await declareApps(call)
        case ("POST", "/phones"): try await installPhones(call)
        case ("POST", "/activities"): try await startActivities(call)
        case ("GET", "/activities"): try await listActivities(call)
        case ("GET", "/activity"): try await showActivity(call)
        case ("GET", "/phone"): try await showPhone(call)
        case ("GET", "/registrations"): try await listRegistrations(call)
        case ("POST", "/rotate"): try await rotate(call)
        case ("POST", "/dismiss"): try await dismiss(call)
        case ("POST", "/uninstall"): try await uninstall(call)
        case ("POST", "/expect"): try await expect(call)
        case ("POST", "/crowds"): try await gatherCrowd(call)
        case ("GET", "/crowd"): try await showCrowd(call)
        case ("GET", "/crowd/registrations"): try await listCrowdRegistrations(call)
        case ("POST", "/crowd/dismiss"): try await dismissOfCrowd(call)
        case ("POST", "/crowd/rotate"): try await rotateOfCrowd(call)
        case ("POST", "/offline"): try await goOffline(call)
        case ("POST", "/online"): try await goOnline(call)
        case ("GET", "/summary"): try await summarize()
        case ("GET", "/stats"): try await countService()
        case ("GET", "/faults"): try await showFaults()
        case ("PUT", "/faults"): try await putFaults(call)
        case ("DELETE", "/faults"): try await clearFaults()
        case ("POST", "/goaway"): try await goAway(call)
        case ("POST", "/cut"): try await cut()
        case ("POST", "/silence"): try await silence(call)
        case ("POST", "/clock"): try await advanceClock(call)
        case ("POST", "/reset"): try await reset()
        default: try await answerOfChannels(call)
        }
    }

    private func answerOfChannels(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        switch (call.method, call.path) {
        case ("GET", "/channels"): try await listChannels(call)
        case ("POST", "/channels"): try await createChannel(call)
        case ("POST", "/channels/delete"): try await deleteChannel(call)
        case ("POST", "/broadcasts"): try await setBroadcasts(call)
        case ("GET", "/management/faults"): try await showFaults(ofManagement: true)
        case ("PUT", "/management/faults"): try await putFaults(call, ofManagement: true)
        case ("DELETE", "/management/faults"): try await clearFaults(ofManagement: true)
        default: throw SimulatorError(.notFound, "no such endpoint: \(call.method) \(call.path)")
        }
    }
}

extension SimulatorError {
    var status: Int {
        switch code {
        case .invalidRequest, .invalidConfiguration: 400
        case .notFound: 404
        case .conflict: 409
        case .limitReached: 413
        case .cannotListen, .notRunning: 503
        }
    }
}
