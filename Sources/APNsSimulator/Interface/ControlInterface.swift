import HTTP
import Reactor

/// The HTTP/1.1 interface of the simulator, on 127.0.0.1 only, for demonstrations and for tests in other
/// processes.
///
/// Bodies are JSON objects in both directions. An error is `{"error":"…","reason":"…"}` with a status of 400 or higher.
/// To read on where a response ends, pass its `next` as `since` or `from` of the next request. The `next` of
/// `POST /phones` is for `GET /registrations`.
///
/// - `GET /`. Gives `host`, `port`, `managementPort`, `environment`, `caFile`.
/// - `POST /apps`. Takes `app`, `teamId`, `attributesTypes`: a list of `name`, `attributes`, `contentState`
///   (see `Shape` for both) and `identifierAttribute`.
/// - `POST /phones`. Takes `app`; either `devices`, or `prefix` and `count`; `environment`, `frequentUpdates`; and
///   `channels` and `audiences`, which the registrations contain. Gives `installed`, `next`.
/// - `POST /offline`, `POST /online`. Takes `app`, `devices`.
/// - `POST /activities`. Takes `app`, `activities`: a list of `activity`, `device`, `attributesType`, `attributes`,
///   `contentState`, `timestamp`, `audiences`, `channel`. The same fields beside the list, except `activity` and
///   `device`, are the defaults. Instead of the list: `devices`, or `devicePrefix` and `count`. Each device then starts
///   one activity, whose id is `prefix` and a number. Gives `registrations`.
/// - `GET /activities?app&since&limit&alerts`. Gives `activities`, each with its alerts if `alerts=true`;
///   `next`.
/// - `GET /activity?app&activity`, `GET /phone?app&device`, `GET /phone?number`. Gives the activity or the
///   phone, with the content on the Lock Screen.
/// - `GET /screens?since&focus`. Gives the changes on the Lock Screens: see `DeviceModel.screensJSON`.
/// - `GET /registrations?since&limit&waitMilliseconds`. Gives `registrations`: `key`, `value`; `next`.
/// - `POST /rotate`. Takes `app`; either `activity`, or `device` and `attributesType`; `oldToken`: `retired` or
///   `acceptedWithoutEffect`.
/// - `POST /dismiss`. Takes `app`, `activity`.
/// - `POST /uninstall`. Takes `app`, `device`.
/// - `POST /expect`. Takes `app`, `activities`: for each id the expected content state, or null if the activity should
///   not be shown. Gives `matching`, `mismatches`.
/// - `GET /summary`. Gives sums over all phones except compact ones.
/// - `GET /stats`. Gives the counts of the service.
/// - `POST /crowds`. Takes a crowd of compact phones (`CompactCrowd`): `app`, `name`, `count`, `audiences`,
///   `environment`, `frequentEvery`, `identifiers` (`numbered` or `uuid`), `timestamp` of the initial content. Gives
///   `phones`.
/// - `GET /crowd?app&name`. Gives `shown`, the content states of the crowd, newest first: `timestamp`, `contentState`,
///   `phones`, `pushes`, `firstMilliseconds`, `lastMilliseconds`. Gives numbers of phones: `reversed` (got a push older
///   than the shown content), `alertedTwice`, `unreached` (got no push), `ended`, `gone`. Gives sums: `pushes`,
///   `priority10`, `repeatedPushes`, `alerts`, `refused`, `effects`; and `pushesMax`, the most pushes to one phone.
/// - `GET /crowd/registrations?app&name&from&limit`. Gives `registrations`: `key`, `value`; `next`.
/// - `POST /crowd/dismiss`, `POST /crowd/rotate`. Takes `app`, `name`, `from`, `count`. Gives `phones`.
/// - `GET`, `PUT`, `DELETE /faults`. Takes a key for each property of `Faults`, and gives all of them. Two keys set the
///   latency: `latencyMillisecondsMin` and `latencyMillisecondsMax`. Three keys set `goAway`: `goAwayCode`,
///   `goAwayReason` and `goAwayGraceMilliseconds`. `reasonShares` is an object with Apple's reasons as keys.
/// - `GET`, `PUT`, `DELETE /management/faults`. Does the same for the service that manages channels.
/// - `GET /channels?app`. Gives `channels`, including deleted ones: `channel`, `storage`, `createdAt`,
///   `deletedAt`, `subscribers`, `broadcasts`, `stored`, `leastDistanceMilliseconds`.
/// - `POST /channels`. Creates a channel as another program would. Takes `app`, `storage`: `none` or `newest`. Gives
///   `channel`.
/// - `POST /channels/delete`. Deletes a channel as another program would. Takes `app`, `channel`.
/// - `POST /broadcasts`. Takes `app`, `enabled`: the capability for broadcasts. `false` deletes the app's
///   channels.
/// - `POST /goaway`. Takes nothing, or keys for the properties of `GoAway`: `code` (sets `errorCode`), `reason`,
///   `lastStream`, `graceMilliseconds`.
/// - `POST /cut`. Takes nothing: closes all connections without GOAWAY and close_notify.
/// - `POST /silence`. Takes nothing, or `stopsReading`: leaves all established connections half open.
/// - `POST /clock`. Takes `advanceMilliseconds`: how far to advance the simulated clock.
/// - `POST /reset`. Takes nothing. Removes all apps, phones and counts, and clears the faults (`Simulator.reset`).
///
/// If the simulated devices refuse an item of a list, the items before it have already taken effect.
final class ControlInterface: Sendable {
    let port: UInt16
    private let server: HTTPServer
    private let task: Task<Void, any Error>

    private init(port: UInt16, server: HTTPServer, task: Task<Void, any Error>) {
        self.port = port
        self.server = server
        self.task = task
    }

    private static var limits: HTTPServerLimits {
        var limits = HTTPServerLimits()
        limits.connectionsMax = 256
        limits.bodyBytesMax = JSONTape.textBytesMax
        limits.totalBodyBytesMax = 4 * JSONTape.textBytesMax
        limits.exchangesMax = 256
        return limits
    }

    static func start(port: UInt16, simulator: Simulator) async throws(SimulatorError) -> ControlInterface {
        let address = SocketAddress.loopback(port: port)
        let server: HTTPServer
        do throws(SystemError) {
            server = try HTTPServer(name: "control", address: address, limits: limits)
        } catch {
            throw SimulatorError(address, error)
        }
        do {
            let task = Task { try await serve(server, simulator: simulator) }
            return ControlInterface(port: try await server.awaitPort(), server: server, task: task)
        } catch {
            throw SimulatorError(.cannotListen, "the HTTP interface \(error)")
        }
    }

    /// Serves calls. Returns when the server and all calls have ended.
    private static func serve(_ server: HTTPServer, simulator: Simulator) async throws {
        let exchanges = AsyncStream<HTTPExchange>.makeStream()
        try await withThrowingDiscardingTaskGroup { group in
            group.addTask {
                defer { exchanges.continuation.finish() }
                try await server.run { _ in ControlCallForwarder(exchanges.continuation) }
            }
            let handler = ControlHandler(simulator: simulator)
            for await exchange in exchanges.stream {
                group.addTask { exchange.respond(await handler.respond(to: exchange)) }
            }
        }
    }

    /// Ends all connections and waits for all calls. Close the `RegistrationNotifier` first, because calls that wait
    /// for registrations would delay the stop.
    func stop() async {
        server.requestStop()
        _ = await task.result
    }
}

/// Passes the server's requests on to tasks, because most calls wait for the service's thread. The server limits the
/// number of requests, and so the number of tasks (R4).
private final class ControlCallForwarder: HTTPRequestHandler {
    private let exchangeContinuation: AsyncStream<HTTPExchange>.Continuation

    init(_ exchangeContinuation: AsyncStream<HTTPExchange>.Continuation) {
        self.exchangeContinuation = exchangeContinuation
    }

    func respond(to exchange: HTTPExchange) -> HTTPResponse? {
        exchangeContinuation.yield(exchange)
        return nil
    }

    func refusal(status: Int) -> HTTPResponse {
        let error =
            switch status {
            case 413, 431, 503: SimulatorError(.limitReached, HTTPResponse.reasonPhrase(of: status))
            default: SimulatorError(.invalidRequest, HTTPResponse.reasonPhrase(of: status))
            }
        return ControlHandler.errorResponse(status, error)
    }
}

/// Finds the endpoint of a request, and turns errors into responses.
struct ControlHandler: Sendable {
    let simulator: Simulator

    func respond(to exchange: HTTPExchange) async -> HTTPResponse {
        let call = ControlCall(
            method: exchange.head.method,
            path: exchange.head.path,
            query: exchange.head.query,
            body: exchange.body
        )
        do throws(SimulatorError) {
            return HTTPResponse(status: 200, contentType: "application/json", body: try await respond(to: call))
        } catch {
            return Self.errorResponse(error.status, error)
        }
    }

    static func errorResponse(_ status: Int, _ error: SimulatorError) -> HTTPResponse {
        let body = jsonObject { writer in
            writer.member("error", error.code.rawValue)
            writer.member("reason", error.reason)
        }
        return HTTPResponse(status: status, contentType: "application/json", body: body)
    }

    private func respond(to call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        switch (call.method, call.path) {
        case ("GET", "/"): try await describeService()
        case ("POST", "/apps"): try await declareApp(call)
        case ("POST", "/phones"): try await installPhones(call)
        case ("POST", "/activities"): try await startActivities(call)
        case ("GET", "/activities"): try await listActivities(call)
        case ("GET", "/activity"): try await getActivity(call)
        case ("GET", "/phone"): try await getPhone(call)
        case ("GET", "/screens"): try await getScreens(call)
        case ("GET", "/registrations"): try await listRegistrations(call)
        case ("POST", "/rotate"): try await rotateToken(call)
        case ("POST", "/dismiss"): try await dismissActivity(call)
        case ("POST", "/uninstall"): try await uninstallApp(call)
        case ("POST", "/expect"): try await compareActivities(call)
        case ("POST", "/crowds"): try await createCrowd(call)
        case ("GET", "/crowd"): try await getCrowd(call)
        case ("GET", "/crowd/registrations"): try await listCrowdRegistrations(call)
        case ("POST", "/crowd/dismiss"): try await dismissActivitiesInCrowd(call)
        case ("POST", "/crowd/rotate"): try await rotateTokensInCrowd(call)
        case ("POST", "/offline"): try await takeOffline(call)
        case ("POST", "/online"): try await bringOnline(call)
        case ("GET", "/summary"): try await summarizeDevices()
        case ("GET", "/stats"): try await getStatistics()
        case ("GET", "/faults"): try await getFaults()
        case ("PUT", "/faults"): try await putFaults(call)
        case ("DELETE", "/faults"): try await clearFaults()
        case ("POST", "/goaway"): try await sendGoAway(call)
        case ("POST", "/cut"): try await cutConnections()
        case ("POST", "/silence"): try await makeConnectionsHalfOpen(call)
        case ("POST", "/clock"): try await advanceClock(call)
        case ("POST", "/reset"): try await reset()
        default: try await respond(toChannelCall: call)
        }
    }

    private func respond(toChannelCall call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        switch (call.method, call.path) {
        case ("GET", "/channels"): try await listChannels(call)
        case ("POST", "/channels"): try await createChannel(call)
        case ("POST", "/channels/delete"): try await deleteChannel(call)
        case ("POST", "/broadcasts"): try await setBroadcastCapability(call)
        case ("GET", "/management/faults"): try await getFaults(of: .management)
        case ("PUT", "/management/faults"): try await putFaults(call, of: .management)
        case ("DELETE", "/management/faults"): try await clearFaults(of: .management)
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
