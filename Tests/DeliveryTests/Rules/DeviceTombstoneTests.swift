import LiveActivity
import Testing

@testable import Delivery

/// Tombstones whose key may name an attributes type of a device, as `phone/7/Ride`. They also unregister an activity
/// and a device whose id is the whole key.
@Suite struct DeviceTombstoneTests {
    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    /// Returns the call as text: its purpose, the activity or device and, if there is one, the attributes type.
    private func describe(_ call: StoreCall<[UInt8]>) -> String {
        guard case .unregister(_, let type) = call.operation else { return "\(call.ticket.purpose)" }
        return "\(call.ticket.purpose) \(text(call.subject.identifier))" + (type.map { " only \(text($0))" } ?? "")
    }

    @Test func `A tombstone unregisters the attributes type that its key names, in one app after another`() {
        let core = CoreHarness(apps: [CommandText.app, "com.example.other"])
        core.unregister(key: "phone/7/Ride")
        for appIndex in UInt16(0)...1 {
            #expect(
                core.calls.map(describe) == ["unregisterActivity phone/7/Ride", "unregisterDevice phone/7/Ride"]
            )
            #expect(core.calls.map(\.ticket.appIndex) == [appIndex, appIndex])
            core.reply(.unregistered)
            core.reply(.unregistered)
        }
        for appIndex in UInt16(0)...1 {
            #expect(core.calls.map(describe) == ["unregisterDevice phone/7 only Ride"])
            #expect(core.calls.map(\.ticket.appIndex) == [appIndex])
            #expect(core.committableOffset(core.registrationsPartition) == 0)
            core.reply(.unregistered)
        }
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0 && core.calls.isEmpty && core.results.isEmpty)
    }

    @Test func `A key that is too long for an id may name a device and an attributes type`() {
        let core = CoreHarness()
        let (device, type) = (String(repeating: "d", count: 256), String(repeating: "T", count: 256))
        core.unregister(key: "\(device)/\(type)")
        #expect(core.calls.map(describe) == ["unregisterDevice \(device) only \(type)"])
        core.reply(.unregistered)
        #expect(core.committableOffset(core.registrationsPartition) == 1)
    }

    /// The whole key and its first part are two devices. Each leaves an audience, one after the other.
    @Test func `Audiences learn which device has left them`() {
        let core = CoreHarness()
        let departures = CoreHarness.departures("m", at: CoreHarness.startSeconds * 1_000)
        core.unregister(key: "phone/Ride")
        core.reply(.unregistered)
        for device in ["phone/Ride", "phone"] {
            core.reply(.unregistered, departures: departures)
            #expect(core.notifyAudiences()?.member == device)
            #expect(core.committableOffset(core.registrationsPartition) == 0)
            #expect(core.calls.map { text($0.subject.identifier) } == [device])
            core.acknowledgeSettlement()
        }
        #expect(core.committableOffset(core.registrationsPartition) == 1)
        #expect(core.inProgressRecordCount == 0)
    }
}
