import LiveActivity
import Testing

@Suite("The address of a started activity")
struct StartedActivityAddressTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="

    /// Returns the start's `aps` dictionary with this address in place of its own; nil if the dictionary already names
    /// a channel.
    private func completed(_ aps: String, _ address: StartedActivityAddress) -> String? {
        var aps = aps
        return aps.withUTF8 { aps in
            let aps = UnsafeRawBufferPointer(aps)
            var room = [UInt8](repeating: 0, count: aps.count)
            guard let count = room.withUnsafeMutableBytes({ StartedActivityAddress.copyWithoutAddress(aps, into: $0) })
            else {
                return nil
            }
            return room[..<count]
                .withUnsafeBytes { open in
                    var writer = JSONWriter()
                    let none = UnsafeRawBufferPointer(start: nil, count: 0)
                    var record = CommandRecord(app: none, activity: none, aps: open)
                    record.address = address
                    record.write(to: &writer)
                    let text = String(decoding: writer.bytes, as: UTF8.self)
                    let prefix = #"{"app":"","activity":"","aps":"#
                    #expect(text.hasPrefix(prefix) && text.hasSuffix("}"))
                    let dictionary = text.dropFirst(prefix.count).dropLast()
                    #expect(dictionary.utf8.count == count + address.byteCount)
                    return String(dictionary)
                }
        }
    }

    @Test
    func `A started activity's address replaces the one that the start has, and leaves everything else unchanged`()
        throws
    {
        let address = StartedActivityAddress.channel(try #require(ChannelIdentifier(Self.channel)))
        for (aps, rest) in [
            (#"{"event":"start","a":{"input-push-token":1}}"#, #""event":"start","a":{"input-push-token":1}"#),
            (#"{"input-push-token":1,"event":"start"}"#, #""event":"start""#),
            (#"{ "event" : "start" , "input-push-token" : 1 }"#, #""event" : "start""#),
            (#"{"event":"start","input-push\u002dtoken":1,"x":[1, 2]}"#, #""event":"start","x":[1, 2]"#),
        ] {
            #expect(completed(aps, address) == #"{\#(rest),"input-push-channel":"\#(Self.channel)"}"#)
            #expect(completed(aps, .token) == #"{\#(rest),"input-push-token":1}"#)
        }
    }

    @Test func `The address is the start's own if the start names a channel`() {
        #expect(completed(#"{"event":"start","input-push-channel":"c"}"#, .token) == nil)
    }
}
