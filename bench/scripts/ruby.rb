# An object graph in Ruby: hashes, arrays and strings are built, visited in mixed order, partly replaced, and sorted.
#
# ruby.rb BYTES SEED: BYTES is what the records take. Prints one line of JSON; the checksum is that of what was visited
# and of the sorted order.

require 'digest'

NAMES = %w[
  amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder marble needle orange pepper
].freeze

# One record, in several objects.
RECORD_BYTES = 860

Record = Struct.new(:id, :key, :name, :tags, :prices, :note, :following)

def word(draw) = NAMES[draw.rand(16)]

def tags(draw) = Array.new(3) { "#{word(draw)}-#{draw.rand(1000)}" }

def record(id, draw)
  words = Array.new(8) { word(draw) }.join(' ')
  note = "seen #{draw.rand(100)} times, last at #{draw.rand(1 << 40).to_s(16)}: #{words}"
  prices = Array.new(4) { draw.rand(100_000) / 100.0 }
  Record.new(id, draw.rand(1 << 50), "#{word(draw)} #{word(draw)} #{id}", tags(draw), prices, note, nil)
end

def seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC)

bytes, seed = ARGV.map { |text| Integer(text) }
draw = Random.new(seed)
count = bytes / RECORD_BYTES

started = seconds
records = Array.new(count) { |id| record(id, draw) }
by_name = records.to_h { |one| [one.name, one] }
records.each { |one| one.following = records[draw.rand(count)] }
built = seconds
total = 0
(count / 4).times do
  one = by_name[records[draw.rand(count)].name]
  4.times do
    total = (total * 31 + one.key + one.tags[0].size + one.prices[1].to_i) % 1_000_000_007
    one = one.following
  end
  records[draw.rand(count)].tags = tags(draw)
end
visited = seconds
records.sort_by! { |one| [one.key, one.id] }
sorted = seconds

digest = Digest::SHA256.new
records.each { |one| digest << "#{one.id} #{one.key} #{one.name} #{one.tags} #{one.note}" }
digest << total.to_s
figures = { build_s: built - started, access_s: visited - built, sort_s: sorted - visited }
figures = figures.map { |figure, value| format('"%s":%.3f', figure, value) }.join(',')
puts %({"figures":{#{figures}},"checksum":"#{digest.hexdigest}"})
