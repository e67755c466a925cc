import CausewayCommandLine

/// Copies registrations from the simulated apps to the worker's topic, as an app's server does.
struct RegistrationRelay {
    private static let recordsPerRequestMax = 5_000
    private static let waitMilliseconds = 100

    let phones: SimulatedPhones
    /// The number of registrations copied so far. It is also the place in the simulator's list where the next read
    /// begins.
    private(set) var copiedRegistrationCount = 0

    init(phones: SimulatedPhones) {
        self.phones = phones
    }

    /// Copies registrations until at least `total` have been copied by all calls together.
    ///
    /// - Parameters:
    ///   - beforeRequest: called before each request for registrations.
    ///   - makeStallError: makes the error to throw if the registrations do not come in time.
    mutating func copyRegistrations(
        upTo total: Int,
        to commandProducer: CommandProducer,
        withinMilliseconds milliseconds: Int64,
        beforeRequest: () throws(LabError) -> Void,
        makeStallError: (String) -> LabError = { LabError($0) }
    ) throws(LabError) {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + milliseconds
        while copiedRegistrationCount < total {
            try beforeRequest()
            try copyNextRegistrations(to: commandProducer)
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                throw makeStallError("only \(copiedRegistrationCount) of \(total) tokens have been registered")
            }
        }
    }

    /// Copies the next registrations, at most `recordsPerRequestMax`. Waits a short time if there are none yet.
    private mutating func copyNextRegistrations(to commandProducer: CommandProducer) throws(LabError) {
        let response = try phones.readRegistrations(
            since: copiedRegistrationCount,
            limit: Self.recordsPerRequestMax,
            waitMilliseconds: Self.waitMilliseconds
        )
        for record in response.records {
            while try !commandProducer.produceRegistration(key: record.key, value: record.value) {
                commandProducer.takeDeliveryReports()
            }
        }
        copiedRegistrationCount = response.next
    }
}
